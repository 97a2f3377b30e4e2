"""What happens to the machines: each returns when it is over."""

import time


def kill_a_hub(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.kill("hub")
    time.sleep(chosen.random() * 4)
    machines.start_hub(machine)


def kill_the_writer(machines, chosen, world):
    machine = world.writer() or chosen.choice(machines)
    machine.kill("hub")
    world.wait_for_writes(30)
    machines.start_hub(machine)


def stop_the_writer_past_its_replacement(machines, chosen, world):
    machine = world.writer() or chosen.choice(machines)
    machine.stop("hub")
    time.sleep(4 + chosen.random() * 3)
    machine.go_on("hub")


def restart_a_hub(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.halt_hub()
    machines.start_hub(machine)


def restart_all_hubs_in_turn(machines, chosen, world):
    for machine in machines:
        machine.halt_hub()
        machines.start_hub(machine)
        world.wait_for_writes(30)


def kill_a_server(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.kill("nats")
    time.sleep(chosen.random() * 6)
    machine.start_nats()


def stop_a_server(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.stop("nats")
    time.sleep(2 + chosen.random() * 8)
    machine.go_on("nats")


def kill_a_machine(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.kill("hub")
    machine.kill("nats")
    time.sleep(2 + chosen.random() * 6)
    machine.start_nats()
    machines.start_hub(machine)


def cut_off_a_machine(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.cut(from_clients=True)
    time.sleep(2 + chosen.random() * 10)
    machine.join(from_clients=True)


def cut_off_the_writer_but_not_its_clients(machines, chosen, world):
    machine = world.writer() or chosen.choice(machines)
    machine.cut(from_clients=False)
    time.sleep(2 + chosen.random() * 10)
    machine.join(from_clients=False)


FAULTS = [
    kill_a_hub, kill_the_writer, stop_the_writer_past_its_replacement, restart_a_hub, restart_all_hubs_in_turn, kill_a_server, stop_a_server,
    kill_a_machine, cut_off_a_machine, cut_off_the_writer_but_not_its_clients,
]
