#!/bin/sh
# Fails if an include, or a lock, is on the wrong side of a layer (ARCHITECTURE.md).
# Usage: check_layers.sh SOURCE_DIR
cd "$1" || exit 2
bad=0
deny() { # deny WHY PATTERN PATH...: no source under PATH may match; absent paths are fine
    why=$1; pattern=$2; shift 2
    present=
    for path in "$@"; do [ -e "$path" ] && present="$present $path"; done
    [ -n "$present" ] || return 0
    # shellcheck disable=SC2086 # the paths are ours and have no blanks
    if grep -rnE --include='*.[ch]' --include='*.cu' "$pattern" $present; then
        echo "  ^ $why"; bad=1
    fi
}
public=$(ls iter/*.h)
deny "the library may not know these" '#include ["<](loaders|transforms|engine|diagnose|bench|tools|examples|tests)/' iter
deny "the core knows nothing above it" '#include ["<]iter/(spec|dataset|plan|observe|profile|reading|gpu|runtime|device)/' iter/core
deny "below the runtime, only core and spec" '#include ["<]iter/(dataset|plan|observe|profile|reading|gpu|runtime|device)/' iter/spec loaders transforms
deny "the profiler knows core and spec" '#include ["<](iter/(dataset|plan|observe|reading|gpu|runtime|device)|loaders|transforms)/' iter/profile
deny "datasets and plans know nothing of a loader" '#include ["<]iter/(observe|gpu|runtime)/' iter/dataset iter/plan
deny "loaders know the core alone" '#include ["<](transforms|engine|bench|tools|examples|tests)/' loaders
deny "transforms know the core alone" '#include ["<](loaders|engine|bench|tools|examples|tests)/' transforms
deny "programs use public headers" \
    '#include ["<](iter/(core|spec|dataset|plan|observe|profile|reading|gpu|runtime)|loaders|transforms|tests)/' engine examples bench diagnose
deny "the diagnosis stands on the public headers" '#include ["<](iter/device|engine|bench|tools|examples)/' diagnose
deny "the diagnosis is a library of its own" '#include ["<]diagnose/' iter loaders transforms engine examples tools
# The one exception: iterpack writes what the loaders read, so it uses their parsers of lists,
# indexes and records.
if grep -rnE --include='*.[ch]' '#include ["<](iter/(core|spec|dataset|plan|observe|profile|reading|gpu|runtime)|loaders|transforms|tests)/' tools |
    grep -vE ':#include "(loaders/(files/(file|jpeg_copies|record|window)|formats/(image_list|record_index))|iter/core/alloc)\.h"'; then
    echo "  ^ iterpack has the loaders' parsers, nothing else of the inside"; bad=1
fi
deny "programs use public headers" '#include ["<]iter/device/' examples
# Another exception: the driver's table depends on nothing; programs that call the driver compile
# their own copy.
for folder in engine bench tools; do
    [ -d $folder ] || continue
    if grep -rnE --include='*.[ch]' '#include ["<]iter/device/' $folder |
        grep -vE '^(engine/cuda/[^:]+|bench/measure/gpu_plain\.[ch]):[0-9]+:#include "iter/device/cuda_(api|driver)\.h"'; then
        echo "  ^ of the device, the driver's table alone is for others"; bad=1
    fi
done
deny "the device knows the core alone" '#include ["<](iter/(profile|reading|gpu|runtime)|loaders|transforms)/' iter/device
deny "the driver's table depends on nothing" \
    '#include "(iter/core|iter/device/(device|cuda_device))' iter/device/cuda_api.h iter/device/cuda_driver.h iter/device/cuda_driver.c
deny "no locks and threads on the device" 'pthread_|mtx_lock' iter/device
deny "programs do without the engine's inside" '#include ["<]engine/' examples bench tools
deny "the engine knows nothing above it" '#include ["<](bench|tools|examples|tests)/' engine
# Includes between the folders of bench form no cycle.
rooms() { # rooms FOLDER OTHER...: of bench, FOLDER includes itself and the OTHERs alone
    [ -d "bench/$1" ] || return 0
    allowed=$(echo "$*" | tr ' ' '|')
    if grep -rnE --include='*.[ch]' '#include "bench/' "bench/$1" | grep -vE ":#include \"bench/($allowed)/"; then
        echo "  ^ bench/$1 includes of bench only: $*"; bad=1
    fi
}
rooms common
rooms generate common
rooms measure common
rooms limits common measure
rooms studies common measure limits
rooms report common measure limits
rooms doctor common measure limits
rooms verdict common measure limits doctor
deny "tools and bench are apart" '#include "bench/' tools
deny "tools and bench are apart" '#include "tools/' bench
# shellcheck disable=SC2046 # the paths are ours and have no blanks
deny "oneDNN is called in engine/cpu/onednn* alone" '#include [<"](oneapi/)?dnnl' iter loaders transforms diagnose bench tools examples \
    $(find engine -name '*.[ch]' ! -path 'engine/cpu/onednn*')
# shellcheck disable=SC2046
deny "threads of the engine are OpenMP's, in engine/cpu" 'pthread_|#include <(pthread|threads)\.h>|#pragma omp' \
    $(find engine -maxdepth 1 -name '*.[ch]')
# shellcheck disable=SC2086
deny "a public header includes public headers" \
    '#include ["<](iter/(core|spec|dataset|plan|observe|profile|reading|gpu|runtime|device)|loaders|transforms|engine)/' $public
deny "threads and locks live in the rooms of iter/" \
    'pthread_|#include <(pthread|stdatomic|threads)\.h>|__atomic|__sync_' loaders transforms
# The core has ref-counts, the allocator's test counters, and the one place that starts a thread;
# but no lock.
deny "no locks in the core" 'pthread_(mutex|cond|rwlock|spin)|mtx_lock' iter/core
# shellcheck disable=SC2046 # the paths are ours and have no blanks
deny "threads start in iter/core/thread.c" 'pthread_create' $(ls iter/*/*.[ch] | grep -v iter/core/thread.c) loaders transforms
# Public headers with <>, the project's own with "" from the root.
deny "public headers are included with <>" '#include "iter/[a-z_0-9]+\.h"' \
    iter loaders transforms engine diagnose bench tools examples tests
deny "private headers are included with \"\"" \
    '#include <(iter/(core|spec|dataset|plan|observe|profile|reading|gpu|runtime|device)|loaders|transforms|engine|bench|tools|tests)/' \
    iter loaders transforms engine diagnose bench tools examples tests
deny "nothing is printed by the library" '\b(printf|puts|perror|fputs|putchar) ?\(' \
    iter loaders transforms engine
deny "the library does not end the program" '\b(exit|_exit|abort) ?\(' iter loaders transforms engine diagnose
# shellcheck disable=SC2046
deny "what judges a run knows of no plant" '#include "([a-z]+/)*plant' \
    $(find bench -name '*.[ch]' ! -name 'plant*' ! -name cmd_diagnose.c ! -name cmd_ranks.c)
# shellcheck disable=SC2046
deny "what judges a run is not told of a plant" '[>.]plant(ed)?[^_a-z]' \
    diagnose/verdict.c diagnose/verdict_words.c bench/verdict/probe.c diagnose/observer.c
# One allocator, so that tests can fail each allocation. The module for MPI stands alone.
if grep -rnE --include='*.[ch]' '(^|[^>._a-zA-Z0-9])(malloc|calloc|realloc|free|strdup|asprintf|aligned_alloc|posix_memalign) ?\(' \
    iter loaders transforms engine 2>/dev/null | grep -vE '^(iter/core/alloc|engine/engine_memory)\.[ch]:|^engine/mpi/|^[^:]*:[0-9]*: *(/?\*|//)'; then
    echo "  ^ memory comes from iter/core/alloc.h, the engine's from engine/engine_memory.h"; bad=1
fi
exit $bad
