// The system's libnats.
#ifndef VIGLA_CNATS_H
#define VIGLA_CNATS_H

#include <nats/nats.h>

#endif
