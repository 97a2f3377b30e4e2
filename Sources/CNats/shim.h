// libnats as the system has it.
#ifndef VIGLA_CNATS_H
#define VIGLA_CNATS_H

#include <nats/nats.h>

#endif
