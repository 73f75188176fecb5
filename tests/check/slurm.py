# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""tools/autotune.sbatch under a real Slurm of one node: two shards, of which one is cancelled midway and
requeued, merge to the files of one run alone, nothing finished is done again, and a shard that never ran
is missed. The host device with simulated times, so that runs can agree to the byte. Exit code 77 where
Slurm is not installed, cannot be started, or root is not had."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import support

BUILD = pathlib.Path(support.setting("BUILD"))
AUTOTUNE = BUILD / "bin/autotune"
SCRIPT = support.SOURCE / "tools/autotune.sbatch"
WHAT = ["--kernel", "rms_norm", "--dtype", "f32", "--shape", "3x64,40x64,5x96", "--device", "host", "--simulate"]
WHAT += ["--max-candidates", "8"]
# The node of this Slurm has no GPU, and more CPUs than the machine: the tasks run at once anywhere.
HERE = ["--gres=none", "--cpus-per-task=1", "--time=5"]
CONF = """\
ClusterName=capstone
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
# A requeued job waits until its credential has expired: by default two minutes, five seconds at the least.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# Nothing that needs cgroups, an account database or a launcher.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
KillWait=20
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo")


def expect(good, sentence):
    if not good:
        sys.exit(f"failed: {sentence}")


def wait_for(what, seconds, sentence):
    """The first true value of what(), or the end of the test."""
    until = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > until:
            sys.exit(f"failed: {sentence()}")
        time.sleep(0.05)
    return found


def ask(*command, check=True):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    expect(result.returncode == 0 or not check, f"{command} ended with {result.returncode}: {result.stderr}")
    return result.stdout.strip()


def free_ports(count):
    with contextlib.ExitStack() as open_sockets:
        taken = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


@contextlib.contextmanager
def slurm(folder):
    """A Slurm of this one machine below `folder`, until the end of the block; SLURM_CONF names it."""
    host = socket.gethostname().split(".")[0]
    folder.chmod(0o755)  # munged wants its socket to be reachable by all
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONF.format(host=host, folder=folder, ports=free_ports(2)))
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    commands = {
        "munged": ["--foreground", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
                   f"--pid-file={folder}/munge.pid", f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"],
        "slurmctld": ["-D", "-i"],
        "slurmd": ["-D", "-N", "node"],
    }
    daemons = {}
    said = lambda: "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in folder.glob("*.out"))

    def up():
        for name, daemon in daemons.items():
            if daemon.poll() is not None:
                support.skip(f"{name} ended with {daemon.returncode}: {said()}")
        return ask("sinfo", "-h", "-o", "%t", check=False) == "idle"

    try:
        for name, arguments in commands.items():
            with open(folder / f"{name}.out", "w") as out:
                daemons[name] = subprocess.Popen([shutil.which(name), *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            if name == "munged":
                until = time.monotonic() + 10
                while not (folder / "munge.socket").exists() and daemons[name].poll() is None and time.monotonic() < until:
                    time.sleep(0.02)
        until = time.monotonic() + 30
        while not up():
            if time.monotonic() > until:
                support.skip(f"Slurm's node did not come up in 30 s: {said()}")
            time.sleep(0.1)
        yield
    finally:
        subprocess.run(["scancel", "--me", "--signal=KILL", "--full"], capture_output=True)
        subprocess.run(["scancel", "--me"], capture_output=True)
        for daemon in reversed(daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def submit(folder, *arguments):
    """sbatch of the script from `folder`, where its logs go; the job's number."""
    command = ["sbatch", "--parsable", f"--chdir={folder}", f"--output={folder}/%A_%a.log", *HERE, *arguments]
    print("$", *command, flush=True)
    return ask(*command)


def state(job):
    """The state of a job or a task, and the exit code of its script."""
    fields = dict(word.split("=", 1) for word in ask("scontrol", "-o", "show", "job", job).split() if "=" in word)
    return fields["JobState"], int(fields["ExitCode"].split(":")[0])


def ended(job, seconds=90):
    """The state in which a job ends."""
    running = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED")
    wait_for(lambda: state(job)[0] not in running, seconds, lambda: f"job {job} is {state(job)} after {seconds} s")
    return state(job)


def lines(path):
    """The whole lines of a journal that have a key."""
    whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [entry for entry in map(json.loads, whole) if "key" in entry]


def keys(out):
    return [line["key"] for path in sorted((out / ".autotune").glob("*.jsonl")) for line in lines(path) if line["phase"] != "group"]


def files(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*"))
            if p.is_file() and ".autotune" not in p.parts and p.suffix != ".log" and p.name != ".lock"}


def main():
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        support.skip(f"no {', '.join(missing)}; apt-get install munge slurmctld slurmd slurm-client has them")
    if os.geteuid() != 0:
        support.skip("not root, who starts Slurm's daemons")
    os.environ["CAPSTONE_AUTOTUNE"] = str(AUTOTUNE)
    os.environ.pop("CAPSTONE_SHARDS", None)
    # Not in the build folder: a socket's path is short, and munged trusts no folder that others may write.
    with tempfile.TemporaryDirectory(prefix="capstone-slurm-") as folder, slurm(pathlib.Path(folder)):
        try_it(pathlib.Path(folder))


def try_it(folder):
    alone, shared = folder / "alone", folder / "shared"
    log = lambda job, task: (folder / f"{job}_{task}.log").read_text()

    # Without --array the script is autotune itself: one run alone, to compare with.
    whole = submit(folder, SCRIPT, *WHAT, "--out", alone)
    expect(ended(whole) == ("COMPLETED", 0), f"the run alone is {state(whole)}")
    expected, all_keys = files(alone), keys(alone)
    expect(len(expected) == 2 and len(all_keys) > 40, f"the run alone left {list(expected)} after {len(all_keys)} steps")

    # One shard of two, cancelled midway: what it measures it prints into a pipe that holds no more than a
    # part of it and that nobody reads, so it waits there.
    journal = shared / ".autotune/host.rms_norm.f32.shard-1-of-2.jsonl"
    printed = folder / "printed"
    os.mkfifo(printed)
    pipe = os.open(printed, os.O_RDWR)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    first = submit(folder, "--array=1", "--export=ALL,CAPSTONE_SHARDS=2", f"--output={printed}", f"--error={folder}/%A_%a.log",
                   SCRIPT, *WHAT, "--json", "--out", shared)
    wait_for(lambda: len(lines(journal)) > 3, 60, lambda: f"shard 1 measured nothing, and is {state(first + '_1')}")
    ask("scancel", f"{first}_1")
    wait_for(lambda: "CANCELLED" in log(first, 1), 30, lambda: f"Slurm did not cancel shard 1: {log(first, 1)}")
    time.sleep(1)  # the signal comes after those words
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)  # from now on all fits
    expect(ended(f"{first}_1")[0] in ("CANCELLED", "FAILED"), f"the cancelled task is {state(first + '_1')}")
    before = lines(journal)
    expect(not any(line["phase"] == "group" for line in before), "shard 1 was finished before it was cancelled")
    expect("a signal ended it" in log(first, 1), f"autotune did not get the signal: {log(first, 1)}")
    ask("scontrol", "requeue", f"{first}_1")
    wait_for(lambda: state(f"{first}_1")[0] in ("RUNNING", "COMPLETED"), 20, lambda: "the requeued task waits: " + ask("scontrol", "show", "job", f"{first}_1"))
    expect(ended(f"{first}_1") == ("COMPLETED", 0), f"the requeued task is {state(first + '_1')}: {log(first, 1)}")
    expect(f"{len(before)} lines to go on from" in log(first, 1), f"it did not resume its {len(before)} lines: {log(first, 1)}")
    expect(lines(journal)[:len(before)] == before, "the requeued task began a journal anew")

    # The other shard has not run: the merge says so.
    early = submit(folder, SCRIPT, "merge", "--out", shared)
    expect(ended(early) == ("FAILED", 4), f"a merge without shard 2 is {state(early)}; expected exit code 4")

    # The way of the script's first lines: an array, and a merge that waits for it.
    array = submit(folder, "--array=1-2", SCRIPT, *WHAT, "--out", shared, "--resume")
    merge = submit(folder, f"--dependency=afterok:{array}", SCRIPT, "merge", "--out", shared)
    expect(ended(merge) == ("COMPLETED", 0), f"the merge after all shards is {state(merge)}")
    expect("finished before" in log(array, 1), f"shard 1 was tuned again: {log(array, 1)}")
    found = keys(shared)
    expect(len(set(found)) == len(found), "something finished was done again")
    expect(sorted(found) == sorted(all_keys), f"the shards took {len(found)} steps; alone it took {len(all_keys)}")
    expect(files(shared) == expected, "what the shards merge to differs from one run's")
    support.run([AUTOTUNE, "check", "--out", shared])

    # An array that is no list of all shards.
    gap = submit(folder, "--array=2-3", SCRIPT, *WHAT, "--out", shared)
    expect(ended(f"{gap}_2") == ("FAILED", 1) and "expected --array=1-2" in log(gap, 2), f"--array=2-3 was taken: {state(gap + '_2')}")
    print(f"{len(all_keys)} steps, {len(before)} before the task was cancelled: the same files as one run's")


if __name__ == "__main__":
    main()
