#!/bin/sh
# Plugins from outside: the example through iterbench's commands, a sampler, and objects that must
# be refused.
# Usage: ITERBENCH=build/bench/iterbench [CC=cc] check_plugin.sh SOURCE_DIR BINARY_DIR
cd "$1" || exit 2
plugin=$2/examples/09_plugin.so
if [ -z "$ITERBENCH" ] || [ ! -f "$plugin" ]; then echo "skipped: no iterbench, or the example plugin is not built"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_plugin: $*"; bad=1; }

# status WANTED ARGUMENTS: checks the exit status; an error is one line on stderr and nothing on
# stdout.
status() {
    want=$1; shift
    "$ITERBENCH" "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = "$want" ] || fault "status $got, not $want: $*: $(head -c 300 "$dir/err")"
    [ "$want" = 0 ] && return
    [ "$(wc -l <"$dir/err")" = 1 ] || fault "stderr is not one line: $*: $(cat "$dir/err")"
    [ ! -s "$dir/out" ] || fault "an error wrote to stdout: $*"
}
says() { grep -qF -- "$1" "$dir/err" || fault "not said: $1, but: $(cat "$dir/err")"; }

python3 -c "import struct, sys; open(sys.argv[1], 'wb').write(struct.pack('<800f', *range(800)))" "$dir/numbers.bin"
data="floats:$dir/numbers.bin?columns=4"

# Every command accepts it.
status 0 list --plugin "$plugin"
[ "$(sed -n '2s/^  \([a-z]*\) .*/\1/p' "$dir/out")" = floats ] || fault "list does not begin with the plugin's format: $(sed -n 2p "$dir/out")"
status 0 list halve --plugin="$plugin"
grep -q '^  halve  *halves every f32 number$' "$dir/out" || fault "list halve: $(cat "$dir/out")"
status 0 plan --plugin "$plugin" --data "$data" --chain halve
grep -q 'halve .*f32 \[4\]' "$dir/out" || fault "plan: $(cat "$dir/out")"
status 0 limits --plugin "$plugin" --data "$data"
status 0 doctor --plugin "$plugin" --data "$data"
status 0 --plugin "$plugin" --data "$data" --chain halve --seconds 0.2
status 0 --plugin "$plugin" --data "$data" --chain halve --seconds 0.2 --loader dataloader --compute-ms 0.2 --plant slow-decode --prove
echo 'run 2' | "$ITERBENCH" serve --plugin "$plugin" --data "$data" --loader dataloader >"$dir/out" || fault "serve"

# The rows are right for any number of workers.
status 0 --plugin "$plugin" --data "$data" --chain halve --loader dataloader --shuffle none --dump "$dir/dump" --batches 3
python3 - "$dir/dump/data.npy" <<'PYTHON' || fault "the rows of the plugin's format and stage"
import struct, sys
raw = open(sys.argv[1], 'rb').read()
size = 10 + struct.unpack('<H', raw[8:10])[0]
assert struct.unpack('<768f', raw[size:]) == tuple(i / 2 for i in range(768))
PYTHON
hash_of() { "$ITERBENCH" --plugin "$plugin" --data "$data" --chain halve --loader dataloader --hash --json - "$@" | sed -n 's/^  "hash": "\([0-9a-f]*\)"$/\1/p'; }
[ -n "$(hash_of)" ] && [ "$(hash_of)" = "$(hash_of --workers 2 --source pread)" ] || fault "hashes"

# --sampler finds a plugin's sampler, beside the first plugin: samples backwards.
cat >"$dir/back.c" <<'C'
#include <iter/plugin.h>
static uint64_t n;
static iter_status open_back(void *state, const void *options, const iter_sampler_context *context, iter_error *err) {
    (void)state, (void)options, (void)err;
    n = context->n_samples;
    return ITER_OK;
}
static uint64_t length(const void *state) { (void)state; return n; }
static void index_of(void *state, uint32_t epoch, uint64_t position, uint32_t count, uint64_t *out) {
    (void)state, (void)epoch;
    for (uint32_t i = 0; i < count; i++) out[i] = n - 1 - position - i;
}
static const iter_sampler_ops back = {{sizeof(back), "back", "from the last sample to the first", 0, 0, 0, 0}, .open = open_back, .length = length, .index = index_of};
ITER_PLUGIN
iter_status iter_plugin_register(iter_registry *registry, iter_error *err) { return iter_registry_add_sampler(registry, &back, err); }
C
compile() { "${CC:-cc}" -shared -fPIC -I. "$dir/$1.c" -o "$dir/$1.so" || fault "$1.c does not compile"; }
compile back
status 0 list back --plugin "$plugin" --plugin "$dir/back.so"
status 0 --plugin "$plugin" --plugin "$dir/back.so" --data "$data" --sampler back --loader dataloader --dump "$dir/backwards" --batches 1
python3 - "$dir/backwards/index.npy" <<'PYTHON' || fault "the plugin's sampler"
import struct, sys
raw = open(sys.argv[1], 'rb').read()
assert struct.unpack('<64Q', raw[-512:]) == tuple(range(199, 135, -1))
PYTHON
if command -v "${CXX:-c++}" >/dev/null 2>&1; then # a plugin may be C++
    printf '#include <iter/plugin.h>\nITER_PLUGIN\niter_status iter_plugin_register(iter_registry *, iter_error *) { return ITER_OK; }\n' >"$dir/empty.cc"
    "${CXX:-c++}" -std=c++11 -shared -fPIC -fvisibility=hidden -I. "$dir/empty.cc" -o "$dir/empty.so" || fault "a plugin in C++ does not compile"
    status 0 list floats --plugin "$plugin" --plugin "$dir/empty.so"
fi

# Refusals, each with a message that names the file.
status 1 --plugin "$dir/no.so" --data "$data"
says "plugin $dir/no.so: $dir/no.so: cannot open shared object file"
cp "$dir/numbers.bin" "$dir/text.so"
status 1 list --plugin "$dir/text.so"
says "plugin $dir/text.so: "
echo 'int nothing;' >"$dir/none.c"; compile none
status 1 list --plugin "$dir/none.so"
says "none.so: not a plugin of libiter: it does not export iter_plugin_built_with (ITER_PLUGIN of iter/plugin.h does)"
printf '#include <iter/plugin.h>\nITER_API extern const iter_plugin_version iter_plugin_built_with;\nconst iter_plugin_version iter_plugin_built_with = {sizeof(iter_plugin_version), ITER_VERSION_MAJOR, ITER_VERSION_MINOR + 1, 0};\n' >"$dir/half.c"; compile half
status 1 list --plugin "$dir/half.so"
says "half.so: not a plugin of libiter: it does not export iter_plugin_register"
{ cat "$dir/half.c"; echo 'iter_status iter_plugin_register(iter_registry *r, iter_error *err) { (void)r, (void)err; __builtin_trap(); }'; } >"$dir/newer.c"; compile newer
status 1 list --plugin "$dir/newer.so" # and it has not run
says "newer.so: compiled for libiter "
says "compile it again with the headers of this version"
printf '#include <iter/plugin.h>\nITER_PLUGIN\niter_status iter_plugin_register(iter_registry *r, iter_error *err) { (void)r, (void)err; return ITER_EUNSUPPORTED; }\n' >"$dir/mute.c"; compile mute
status 1 list --plugin "$dir/mute.so" # it fails without a message
says "plugin $dir/mute.so: "
status 1 list --plugin "$plugin" --plugin "$plugin"
says "floats: the registry has one of this name"
status 2 list --plugin
exit $bad
