/* destroy.c - the end of a loader, once its last hold is gone; also of one that is half made. */
#include <sys/mman.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/options.h"
#include "iter/runtime/runtime.h"

void iter__loader_free(iter_loader *loader) {
    if (loader->device.handle && iter__device_slots_settle(loader, NULL) < 0)
        return; /* left to whoever still reads it, on purpose */
    const int32_t n = loader->n_workers > 0 ? loader->n_workers : 1;
    if (loader->workers && loader->n_workers == 0) iter__worker_end(&loader->workers[0]);
    for (int32_t i = 0; loader->workers && i < n; i++) {
        if (loader->workers[i].loader) iter__worker_stop(&loader->workers[i]);
    }
    iter__free(loader->workers);
    iter__free(loader->stages);
    iter__bytes_close(loader);
    iter__device_slots_free(loader);
    iter__batches_free(loader);
    iter__free(loader->queue);
    iter__free(loader->failures);
    iter__plan_free(&loader->plan);
    if (loader->sampler_open && loader->sampler->close)
        loader->sampler->close(loader->sampler_state);
    if (loader->sampler && loader->sampler_options)
        iter__options_free(&loader->sampler->base, loader->sampler_options);
    iter__free(loader->sampler_options);
    iter__free(loader->sampler_state);
    iter__free(loader->opener.drawn);
    iter__free(loader->subset);
    if (loader->alive) munmap(loader->alive, (size_t)sysconf(_SC_PAGESIZE));
    pthread_mutex_destroy(&loader->lock);
    pthread_mutex_destroy(&loader->io.lock);
    pthread_mutex_destroy(&loader->opener.sampler_lock);
    pthread_cond_destroy(&loader->left);
    pthread_mutex_destroy(&loader->watch.lock);
    pthread_cond_destroy(&loader->watch.changed);
    iter_chain_unref(loader->chain);
    iter_dataset_unref(loader->dataset);
    iter__free(loader);
    iter__profile_memory();
}
