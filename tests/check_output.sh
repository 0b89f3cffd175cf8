#!/bin/sh
# The output of iterbench on a terminal and elsewhere: five lines, every row explained, at most 100
# columns, emphasis, progress.
# Usage: ITERBENCH=build/bench/iterbench check_output.sh SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITERBENCH" ]; then echo "skipped: no iterbench"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_output: $*"; bad=1; }
data="synthetic:cifar10?n=500"
run() {
    "$ITERBENCH" --data "$data" --seconds 0.2 "$@" >"$dir/out" 2>"$dir/err" || fault "$*: $(cat "$dir/err")"
    [ ! -s "$dir/err" ] || fault "stderr is not empty: $*: $(cat "$dir/err")"
    [ -z "$(awk 'length > 100' "$dir/out")" ] || fault "wider than 100 columns: $*: $(awk 'length > 100' "$dir/out")"
    grep -q "$(printf '\033')" "$dir/out" && fault "emphasis in a file: $*"
}
labels() { awk -F '  +' '/^[A-Za-z]/ { print $1 }' "$dir/out"; }
five() { # the labels, one after another
    got=$(labels | tr '\n' ' ')
    [ "$got" = "$1" ] || fault "rows '$got', not '$1': $(cat "$dir/out")"
}

# Five lines.
for loader in ndarray dataloader; do
    run --loader $loader --workers 1
    five "rate limit waiting next failed "
    [ "$(wc -l <"$dir/out")" = 5 ] || fault "not five lines: $(cat "$dir/out")"
done
run --chain "random-flip | to:f32,nchw" --loader dataloader # no plain loop does this work
five "rate limit waiting next failed "
grep -qE '^limit +[0-9.]+ % of a plain copy of its bytes in memory, [0-9.]+ [GM]B/s$' "$dir/out" || fault "the limit without a plain loop: $(cat "$dir/out")"
run
five "rate limit waiting verdict failed "
head -n 1 "$dir/out" | grep -qE '^ +ndarray +dataloader$' || fault "two loaders: $(cat "$dir/out")"
run --loader dataloader --compute-ms 1
five "rate limit waiting verdict failed "
"$ITERBENCH" --data "$data" --loader dataloader --hash >"$dir/out"
five "rate limit waiting next failed hash "

# Units that fit.
run --loader dataloader
grep -qE '^rate +[0-9.]+ [kM] samples/s, [0-9.]+ [GM]B/s$' "$dir/out" || fault "units: $(cat "$dir/out")"

# Every row of the long form is explained, in the output and in a table.
"$ITERBENCH" --help | grep -q docs/iterbench.md || fault "--help does not say where rows are explained"
known() {
    labels | while read -r label; do
        case $label in worker*) label="worker 0" ;; change*) label="change 1" ;; esac
        grep '^|' docs/iterbench.md | grep -qF "\`$label\`" || echo "$label"
    done
}
for arguments in "" "--loader dataloader --workers 1" "--loader ndarray --chain to:f32,nchw" "--loader dataloader --workers 2 --compute-ms 1 --chain random-flip|to:f32,nchw" \
    "--loader dataloader --compute-ms 1 --plant few-workers --prove"; do
    # shellcheck disable=SC2086
    run $arguments --verbose
    [ "$(labels | wc -l)" -gt 12 ] || fault "the long form of '$arguments' has few rows: $(cat "$dir/out")"
    unknown=$(known)
    [ -z "$unknown" ] || fault "not in docs/iterbench.md: $unknown"
done

# On a terminal.
if ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    [ $bad = 0 ] || exit 1
    echo "skipped: there are no pseudo-terminals (/dev/pts); all else passed"; exit 77
fi
python3 - "$ITERBENCH" "$data" <<'PYTHON' || fault "on a terminal"
import fcntl, os, pty, re, struct, sys, termios
def run(arguments, columns=100, **more):
    pid, fd = pty.fork()
    if pid == 0:
        for key in ('NO_COLOR', 'TERM'): os.environ.pop(key, None)
        os.environ.update({'TERM': 'xterm', **more})
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        os.execv(sys.argv[1], [sys.argv[1]] + arguments)
    out = b''
    while True:
        try: part = os.read(fd, 65536)
        except OSError: break
        if not part: break
        out += part
    assert os.waitpid(pid, 0)[1] == 0, out
    return out.decode()
measure = ['--data', sys.argv[2], '--loader', 'dataloader', '--seconds', '0.6']
out = run(measure)
assert re.search(r'\r\x1b\[Kloader   0\.\d of 1 s   [0-9.]+ [kM]? ?samples/s', out), out
assert '\x1b[1mrate\x1b[0m' in out, out
assert re.search(r'arms \(step 1 of 2\)   \d\.\d of (at most )?\d s   rounds: \d', run(measure + ['--compute-ms', '1'])), 'no progress of a diagnosis'
for off in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
    out = run(measure, **off)
    assert not re.search(r'\x1b\[[0-9]+m', out), out
assert '\x1b[1m' in run(['list', 'ring'], NO_COLOR='') # an empty NO_COLOR is none
plain = re.sub(r'\x1b\[[0-9]*[mK]', '', run(measure + ['--compute-ms', '1'], columns=60)).split('\r')
assert len(plain) > 5 and not [line for line in plain if len(line.strip()) > 60], plain
PYTHON
exit $bad
