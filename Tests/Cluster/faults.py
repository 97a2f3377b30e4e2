"""What happens to the machines: each returns when it is over."""

import socket
import time

from wire import Nats


# Reasons reported by a writer, by one whose last write was in flight, and by a follower.
REFUSING = ("log_regressed", "outcome_unknown", "cut_off")


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


def kill_a_follower(machines, chosen, world):
    machine = chosen.choice([machine for machine in machines if machine.role() == "following"] or machines)
    machine.kill("hub")
    time.sleep(chosen.random() * 4)
    machines.start_hub(machine)


def stop_the_writer_past_its_replacement(machines, chosen, world):
    machine = world.writer() or chosen.choice(machines)
    machine.stop("hub")
    time.sleep(4 + chosen.random() * 3)
    machine.go_on("hub")


def restart_a_hub(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.halt("hub")
    machines.start_hub(machine)


def restart_all_hubs_in_turn(machines, chosen, world):
    for machine in machines:
        machine.halt("hub")
        machines.start_hub(machine)
        world.wait_for_writes(30)


def kill_a_server(machines, chosen, world):
    machine = chosen.choice(machines)
    machine.kill("nats")
    time.sleep(chosen.random() * 6)
    machine.start_nats()


def kill_the_leader_of_the_log(machines, chosen, world):
    leader = next((leader for _, leader in machines[0].logs()), None)
    machine = next((machine for machine in machines if f"n{machine.number}" == leader), machines[0])
    machine.kill("nats")
    world.wait_for_writes(60)
    machine.start_nats()


def restart_all_servers_in_turn(machines, chosen, world):
    for machine in machines:
        machine.halt("nats")
        machine.start_nats()
        world.wait_until("all servers know all logs again", lambda: len({len(each.logs()) for each in machines}) == 1, 60)
        world.wait_for_writes(60)


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


def deliver_everything_twice(machines, chosen, world):
    """What the servers tell hubs, what hubs tell each other, and what they append."""
    nats = Nats(chosen.choice(machines).address)
    nats.socket.settimeout(1)
    for number, subject in enumerate(("_INBOX.>", "vigla.hub.>", "vigla.log.>")):
        nats.subscribe(subject, number)
    end, count = time.monotonic() + 3 + chosen.random() * 5, 0
    while time.monotonic() < end:
        try:
            nats.publish(*nats.receive())
            count += 1
        except socket.timeout:
            pass
    nats.close()
    world.check(count > 100, f"only {count} messages were delivered twice")


def take_the_logs_away(machines, chosen, world):
    """The servers hold nothing of what the hubs have applied: all hubs refuse writes and go on answering, until it is given back."""
    world.hush()
    machines.keep_logs()
    nats = Nats(machines[0].address)
    for name, _ in machines[0].logs():
        nats.request(f"$JS.API.STREAM.DELETE.{name}")
    nats.close()
    acknowledged, world.isQuiet = world.acknowledged, False
    world.wait_until("all hubs say that they are cut off", lambda: all(each.reason() in REFUSING for each in machines), 60)
    for machine in machines:
        machine.get("/tally.json")
    world.check(world.acknowledged == acknowledged, f"{world.acknowledged - acknowledged} writes were acknowledged without a log")
    machines.put_logs_back()


FAULTS = [
    kill_a_hub, kill_the_writer, kill_a_follower, stop_the_writer_past_its_replacement, restart_a_hub, restart_all_hubs_in_turn,
    kill_a_server, kill_the_leader_of_the_log, restart_all_servers_in_turn, stop_a_server, kill_a_machine, cut_off_a_machine,
    cut_off_the_writer_but_not_its_clients, deliver_everything_twice, take_the_logs_away,
]
