"""Circles between object files that span folders: such folders cannot be linked, read or tested apart.

Usage: object_circles.py OBJECT_FOLDER   prints each circle of iter_objects and exits 1 if there is one

Includes alone do not show them: a function that is declared in a header of the core and defined in the runtime is such a link.
"""
import collections, glob, os, subprocess, sys

top = sys.argv[1]
defined, wanted = {}, collections.defaultdict(set)
for path in sorted(glob.glob(os.path.join(top, "**", "*.o"), recursive=True)):
    name = os.path.relpath(path, top)[:-2]
    if not os.path.exists(name):  # left behind by an older build
        continue
    for line in subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        kind, symbol = line.split()[-2:]
        if kind in "TDRBVWC":
            defined.setdefault(symbol, name)
        elif kind == "U":
            wanted[name].add(symbol)
links = {name: {defined[s] for s in symbols if s in defined} - {name} for name, symbols in wanted.items()}

# Tarjan's strongly connected components, without recursion.
index, low, on_stack, stack, circles = {}, {}, set(), [], []
for root in links:
    if root in index:
        continue
    work = [(root, iter(sorted(links[root])))]
    index[root] = low[root] = len(index)
    stack.append(root), on_stack.add(root)
    while work:
        node, rest = work[-1]
        for other in rest:
            if other not in index:
                index[other] = low[other] = len(index)
                stack.append(other), on_stack.add(other)
                work.append((other, iter(sorted(links.get(other, ())))))
                break
            if other in on_stack:
                low[node] = min(low[node], index[other])
        else:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                circle = []
                while True:
                    circle.append(stack.pop())
                    on_stack.discard(circle[-1])
                    if circle[-1] == node:
                        break
                circles.append(circle)
bad = 0
if len(index) < 100:
    print("only %d objects of the library in %s" % (len(index), top))
    bad = 1
for circle in circles:
    if len({os.path.dirname(name) for name in circle}) > 1:
        bad = 1
        print("a circle of %d objects over folders:" % len(circle))
        inside = set(circle)
        for name in sorted(circle):
            for other in sorted(links[name] & inside):
                if os.path.dirname(name) != os.path.dirname(other):
                    print("  %s -> %s (%s)" % (name, other, ", ".join(sorted(s for s in wanted[name] if defined.get(s) == other))))
print("%d objects, %d circles within a folder" % (len(index), sum(len(c) > 1 for c in circles)))
sys.exit(bad)
