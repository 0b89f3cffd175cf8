/* destroy.c - frees a loader after its last hold was dropped, also one that is only partly
 * created. */
#include <sys/mman.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"
#include "iter/spec/options.h"

void iter__loader_free(iter_loader *loader) {
    /* leaks on purpose: a GPU may still read it */
    if (loader->device.handle && iter__device_slots_settle(loader, NULL) < 0) return;
    const int32_t n = iter__n_workers_all(loader);
    if (loader->workers.all && loader->workers.n == 0) iter__worker_end(&loader->workers.all[0]);
    for (int32_t i = 0; loader->workers.all && i < n; i++) {
        if (loader->workers.all[i].loader) iter__worker_stop(&loader->workers.all[i]);
    }
    iter__free(loader->workers.all);
    iter__free(loader->workers.stages);
    iter__bytes_close(loader);
    iter__device_slots_free(loader);
    iter__batches_free(loader);
    iter__free(loader->queue.entries);
    iter__free(loader->failures.list);
    iter__plan_free(&loader->plan);
    if (loader->sampling.is_open && loader->sampling.ops->close)
        loader->sampling.ops->close(loader->sampling.state);
    if (loader->sampling.ops && loader->sampling.options)
        iter__options_free(&loader->sampling.ops->base, loader->sampling.options);
    iter__free(loader->sampling.options);
    iter__free(loader->sampling.state);
    iter__free(loader->opener.drawn);
    iter__free(loader->sampling.subset);
    iter__parts_free(loader);
    if (loader->alive) munmap(loader->alive, (size_t)sysconf(_SC_PAGESIZE));
    pthread_mutex_destroy(&loader->lock);
    pthread_mutex_destroy(&loader->reading.lock);
    pthread_mutex_destroy(&loader->opener.sampler_lock);
    pthread_cond_destroy(&loader->ending.left);
    pthread_mutex_destroy(&loader->watch.lock);
    pthread_cond_destroy(&loader->watch.changed);
    iter_chain_unref(loader->chain);
    iter_dataset_unref(loader->dataset);
    iter__free(loader);
    iter__profile_memory();
}
