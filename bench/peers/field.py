"""Where everything is, and how a contestant is started. Standard library only; used by run.py and selfcheck.py."""
import argparse
import os
import subprocess

import contestants

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PATHS = ("iterbench", "data", "venvs", "scratch", "out")


def add_arguments(parser):
    cache = os.path.expanduser("~/.cache")
    parser.add_argument("--iterbench", default=os.path.join(ROOT, "build/release/bench/iterbench"), metavar="FILE",
                        help="ours (build/release/bench/iterbench)")
    parser.add_argument("--data", default=os.environ.get("ITER_DATA"), metavar="DIR",
                        help="folder with cifar-10-batches-bin, aclImdb, imdb_word_index.json and clothing ($ITER_DATA)")
    parser.add_argument("--venvs", default=os.path.join(cache, "iter-peers"), metavar="DIR",
                        help="what setup.sh made (~/.cache/iter-peers)")
    parser.add_argument("--scratch", default=os.path.join(cache, "iter-peers-scratch"), metavar="DIR",
                        help="for the packed forms of the data, about 5 GB (~/.cache/iter-peers-scratch)")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="only contestants whose 'workload family name' it is found in")


class Field:
    def __init__(self, arguments):
        if not arguments.data:
            raise SystemExit("where is the data? --data DIR or ITER_DATA")
        self.venvs, self.scratch = os.path.abspath(arguments.venvs), os.path.abspath(arguments.scratch)
        self.iterbench = os.path.abspath(arguments.iterbench)
        self.environment = dict(
            os.environ, ITER_DATA=os.path.abspath(arguments.data), ITER_PEERS=HERE, ITER_PEERS_VENVS=self.venvs,
            ITER_PEERS_SCRATCH=self.scratch, ITERBENCH=self.iterbench, PYTHONDONTWRITEBYTECODE="1",
            TF_CPP_MIN_LOG_LEVEL="2")
        os.makedirs(self.scratch, exist_ok=True)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", os.path.join(self.scratch, "touch.so"),
                        os.path.join(HERE, "touch.c")], check=True)

    def missing(self, family):
        """Why a family cannot take part, or nothing."""
        if not os.path.exists(os.path.join(self.venvs, family, "bin/python")):
            return "not installed"
        if not self.version(family):
            return "not installed (its setup failed)"
        return None

    def version(self, family):
        code = "import importlib.metadata as m; print(m.version(%r))" % contestants.DISTRIBUTIONS[family]
        found = subprocess.run([os.path.join(self.venvs, family, "bin/python"), "-c", code], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        return found.stdout.strip()

    def absent(self, rows):
        """By family, why it cannot take part. Makes what contestants read, where it is not there yet."""
        reasons, wanted = {}, sorted({row.workload for row in rows})
        drawn = contestants.OF_PHOTOS.intersection(wanted) and not self.missing("pillow")
        if drawn:  # it alone draws what crops are checked by
            self.shell(self.peer("pillow", "prepare", 1, "J1"), timeout=1200)
        if any(key.endswith("-seekable") for key in wanted):
            self.pack_seekable()
        for family in dict.fromkeys(row.family for row in rows):
            reason = self.missing(family)
            # The tokenised reviews are made by the first family here, and only where they are read.
            if not reason and (family != "numpy" or any(key.startswith("C") for key in wanted)):
                done = self.shell(self.peer(family, "prepare", 1, " ".join(wanted)), timeout=1200)
                reason = "prepare: " + last_line(done.stderr) if done.returncode else None
            if reason:
                reasons[family] = reason
        return reasons

    def pack_seekable(self):
        """The photos' list as records whose JPEGs have restart markers; it was written by the family that draws."""
        done = self.shell('test -e "$ITER_PEERS_SCRATCH/photos-seekable.idx" || "%s/../tools/iterpack/iterpack" pack '
                          '"$ITER_PEERS_SCRATCH/photos.lst" "$ITER_PEERS_SCRATCH/photos-seekable.rec" --root "$ITER_DATA/clothing" '
                          '--seekable' % os.path.dirname(self.iterbench), timeout=1200)
        if done.returncode:
            raise SystemExit("iterpack: " + last_line(done.stderr))

    def peer(self, family, verb, threads, names=""):
        """A line for /bin/sh. It speaks in variables, so that it reads the same on every machine."""
        limits = " ".join("%s_NUM_THREADS=%d" % (library, threads) for library in ("OMP", "MKL", "OPENBLAS"))
        return ('exec env %s "$ITER_PEERS_VENVS/%s/bin/python" "$ITER_PEERS/peer_%s.py" %s %s' %
                (limits, family, family, verb, names)).rstrip()

    def contestant(self, row, verb="serve"):
        return self.peer(row.family, verb, row.threads, row.name)

    def ours(self, workload, row):
        trains = contestants.trains(workload)
        return 'exec "$ITERBENCH" serve %s --workers %d%s' % (
            contestants.arguments(workload), 0 if trains else row.workers, " --threads %d" % row.threads if trains else "")

    def shell(self, command, cores=None, timeout=600):
        pinned = ["taskset", "-c", cores] if cores else []
        try:
            return subprocess.run(pinned + ["/bin/sh", "-c", command], env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", "took longer than %d s" % timeout)


def first_cores(n):
    """The first n cores that this process may use, as taskset wants them; None where there are fewer."""
    allowed = sorted(os.sched_getaffinity(0))
    return ",".join(map(str, allowed[:n])) if len(allowed) >= n else None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def parser(text):
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
