/* doctor_gpu.c - whether there is a usable GPU, and how fast batches get there. */
#include <dirent.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/doctor/doctor.h"
#include "bench/measure/gpu_plain.h"

#define COPY_BYTES ((size_t)64 << 20)
#define COPY_S     0.3

/* Number of GPUs that the system shows, usable or not. */
static int nvidia_devices(void) {
    DIR *folder = opendir("/dev");
    int n = 0;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        n += strncmp(entry->d_name, "nvidia", 6) == 0 && entry->d_name[6] >= '0' &&
             entry->d_name[6] <= '9';
    if (folder != NULL) closedir(folder);
    return n;
}

/* Adds an item with the reason why no GPU can be used. */
static void add_unused(doctor *d, const char *why) {
    const int n = nvidia_devices();
    const bool amd = access("/dev/kfd", F_OK) == 0;
    if (n == 0 && !amd) {
        doctor_add(d, "gpu", DOCTOR_OK, "none found");
        return;
    }
    doctor_item *item = doctor_add(d, "gpu", DOCTOR_NOTE, "%d by NVIDIA%s, not usable: %.200s", n,
                                   amd ? ", AMD's driver" : "", why);
    doctor_costs(item, "batches stay in host memory: the program must copy them to the device");
}

void doctor_gpu(doctor *d) {
    gpu_plain *cuda;
    gpu_plain_copy copies[2];
    iter_error err = {ITER_OK, ""};
    iter_status s = gpu_plain_open(0, &cuda, &err);
    if (s == ITER_OK) {
        s = gpu_plain_buffers(cuda, COPY_BYTES, 2, copies, &err);
        if (s == ITER_OK) s = gpu_plain_rate(cuda, copies, 2, COPY_S, &d->rates.gpu_copy, &err);
        gpu_plain_close(cuda);
    }
    if (s < 0) {
        add_unused(d, err.message);
        return;
    }
    doctor_add(d, "gpu", DOCTOR_OK, "page-locked memory goes to the first one at %.1f GB/s",
               d->rates.gpu_copy * 1e-9);
}
