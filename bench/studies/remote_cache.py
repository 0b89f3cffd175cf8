"""Files elsewhere through a folder of blocks: rates, kills, and which blocks are worth keeping.

Usage: ITERBENCH=build/release/bench/iterbench ITERPACK=... python remote_cache.py rates SPEC_OF_FILES [ARGS]
       ITERBENCH=... ITERPACK=... python remote_cache.py kills N
       python remote_cache.py hits

rates   SPEC_OF_FILES has {} for a folder, as "recordio:{}/set.rec"; FOLDER is the environment's. The
        warm cache and local files by the ring take turns for 2 s, 15 times; the median of the ratios.
kills   Two processes read through one cache that holds 7/8 of the set; one of them is killed at a
        random moment. Each time the other's hash must be that of the local files.
hits    Hits and fetched blocks by what a full cache drops, simulated: a cache of half of the blocks, a
        new permutation each epoch, one or more samples a block.
"""
import os, random, re, statistics, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "remote"))


def bench(*args):
    return subprocess.run([os.environ["ITERBENCH"], "--loader", "dataloader", "--source", "ring", *args],
                          capture_output=True, text=True)


def rate(spec, args):
    done = bench("--data", spec, "--seconds", "2", "--json", "-", *args)
    if done.returncode:
        sys.exit(done.stderr)
    found = re.search(r'"samples_per_s": ([0-9.e+]+)', done.stdout), re.search(r'"remote": ([0-9]+)', done.stdout)
    return float(found[0].group(1)), int(found[1].group(1))


def rates(template, args):
    import servers
    with tempfile.TemporaryDirectory(prefix="iter-remote-") as folder:
        os.chmod(folder, 0o755)
        files = os.environ["FOLDER"]
        port, _ = servers.start_nginx(folder, files)
        here, there = template.format(files), template.format(f"http://127.0.0.1:{port}")
        there += ("&" if "?" in there else "?") + f"cache={folder}/cache"
        print("first:", rate(there, args), flush=True)
        ratios = []
        for _ in range(15):
            (a, _), (b, remote) = rate(here, args), rate(there, args)
            ratios.append(b / a)
            print(f"{a:10.0f} {b:10.0f} {b / a:.3f} {remote}", flush=True)
        print("median", round(statistics.median(ratios), 3))


def kills(n):
    import servers
    with tempfile.TemporaryDirectory(prefix="iter-remote-") as folder:
        os.chmod(folder, 0o755)
        os.mkdir(os.path.join(folder, "files"))
        with open(os.path.join(folder, "files", "t.bin"), "wb") as out:
            out.write(random.Random(1).randbytes(16 << 20))
        port, _ = servers.start_nginx(folder, os.path.join(folder, "files"))
        local = bench("--data", f"tokens:{folder}/files/t.bin?length=1000", "--batch", "16", "--hash").stdout
        local = re.search(r"^hash +([0-9a-f]+)", local, re.M).group(1)
        cache = os.path.join(folder, "cache")
        spec = f"tokens:http://127.0.0.1:{port}/t.bin?length=1000&cache={cache}&cache-size=14M"
        args = [os.environ["ITERBENCH"], "--data", spec, "--loader", "dataloader", "--source", "ring", "--batch", "16"]
        wrong = above = 0
        for i in range(n):
            killed = subprocess.Popen(args + ["--epochs", "99"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            other = subprocess.Popen(args + ["--hash"], stdout=subprocess.PIPE, text=True)
            time.sleep(random.random() * 0.3)
            killed.kill()
            killed.wait()
            wrong += local not in other.communicate()[0]
            sizes = [os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(cache) for name in names]
            above += sum(sizes) > 14_000_008
            shards = [name for name in os.listdir(cache) if len(name) == 2]
            for name in random.sample(shards, len(shards)):  # so that there is something to write again
                for block in os.listdir(os.path.join(cache, name)):
                    if random.random() < 0.5:
                        os.unlink(os.path.join(cache, name, block))
        print(f"{n} kills: {wrong} wrong hashes, {above} times above the limit")


def hits(n_blocks, per_block):
    import collections, heapq
    import numpy as np
    rng, epochs, room = np.random.default_rng(1), 7, n_blocks // 2
    n = n_blocks * per_block
    order = np.concatenate([rng.permutation(n) // per_block for _ in range(epochs)])
    never, next_use, last = 10**12, np.empty(len(order), np.int64), {}
    for i in range(len(order) - 1, -1, -1):
        next_use[i] = last.get(order[i], never)
        last[order[i]] = i
    measured = range(2 * n, (epochs - 1) * n)

    def lru():
        kept, found = collections.OrderedDict(), 0
        for i, block in enumerate(order):
            if block in kept:
                kept.move_to_end(block)
                found += i in measured
            else:
                kept[block] = True
                if len(kept) > room:
                    kept.popitem(last=False)
        return found

    def keep():
        kept, found = set(), 0
        for i, block in enumerate(order):
            found += i in measured and block in kept
            if len(kept) < room:
                kept.add(block)
        return found

    def known():
        """Drops what comes latest, which may be the block just fetched: no other order has more hits."""
        kept, heap, found = {}, [], 0
        for i, block in enumerate(order):
            is_kept = block in kept
            found += i in measured and is_kept
            if not is_kept and len(kept) == room:
                while -heap[0][0] != kept.get(heap[0][1]):
                    heapq.heappop(heap)
                if -heap[0][0] <= next_use[i]:
                    continue
                del kept[heapq.heappop(heap)[1]]
            kept[block] = next_use[i]
            heapq.heappush(heap, (-next_use[i], block))
        return found

    for name, way in (("least recently used", lru), ("kept", keep), ("known order", known)):
        share = way() / len(measured)
        missed = (1 - share) * len(measured) / (epochs - 3)
        exact = missed / per_block / n_blocks  # sets of bytes, if a miss fetches its sample
        print(f"{per_block:3} a block: {name:20} hits {share:.3f}; an epoch fetches {exact:.2f} of the set by samples, "
              f"{missed / n_blocks:.2f} by blocks")


if sys.argv[1] == "rates":
    rates(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "kills":
    kills(int(sys.argv[2]))
else:
    for case in ((20000, 1), (2000, 4), (500, 40)):
        hits(*case)
