/*
 * fake_cuda_memory.c - device memory, page-locked host memory, copies and fills.
 *
 * Each block on a device is a mapping of its own between two inaccessible pages. Freeing makes it
 * inaccessible but keeps its addresses, so that no later block can be mistaken for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake/fake_cuda_internal.h"

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool is_within(uintptr_t address, size_t bytes, uintptr_t outer, size_t outer_bytes) {
    return address >= outer && bytes <= outer_bytes && address - outer <= outer_bytes - bytes;
}

static bool overlaps(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

static fake_block *find_block(uintptr_t address) {
    for (size_t i = fake.n_blocks; i-- > 0;)
        if (is_within(address, 1, fake.blocks[i].address, fake.blocks[i].bytes))
            return &fake.blocks[i];
    return NULL;
}

static fake_pin *find_pin(uintptr_t address, size_t bytes) {
    for (size_t i = 0; i < fake.n_pins; i++)
        if (is_within(address, bytes, fake.pins[i].address, fake.pins[i].bytes))
            return &fake.pins[i];
    return NULL;
}

bool fake__is_device(uintptr_t address, size_t bytes) {
    const fake_block *block = find_block(address);
    return block && block->live && is_within(address, bytes, block->address, block->bytes);
}

bool fake__is_pinned(uintptr_t address, size_t bytes) {
    return find_pin(address, bytes) != NULL;
}

bool fake__is_live(uintptr_t address, size_t bytes) {
    return fake__is_device(address, bytes) || fake__is_pinned(address, bytes);
}

bool fake__is_written(uintptr_t address, size_t bytes) {
    for (CUstream s = fake.streams; s; s = s->next)
        for (const fake_op *op = s->first; op; op = op->next) {
            if (op->kind == FAKE_OP_COPY && !op->to_device &&
                overlaps(op->to, op->bytes, address, bytes))
                return true;
        }
    return false;
}

uint64_t fake__hash(const void *from, size_t bytes) {
    const unsigned char *in = from;
    uint64_t hash = bytes, word;
    for (; bytes >= 8; bytes -= 8, in += 8) {
        memcpy(&word, in, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, in, bytes);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 32;
}

static bool check_side(const char *what, const char *when, uintptr_t address, size_t bytes) {
    if (fake__is_live(address, bytes)) return true;
    const fake_block *block = find_block(address);
    const char *why = block == NULL ? "is no device memory"
                      : block->live ? "goes beyond its block"
                                    : "was freed";
    fake__violation("%s, %s: [0x%zx, +%zu) %s", what, when, (size_t)address, bytes, why);
    return false;
}

bool fake__check(const fake_op *op, const char *when) {
    if (op->kind == FAKE_OP_SET) return check_side("memset", when, op->to, op->bytes);
    if (op->kind != FAKE_OP_COPY) return true;
    if (op->to_device && !check_side("copy's target", when, op->to, op->bytes)) return false;
    if (op->from_device && !check_side("copy's source", when, op->from, op->bytes)) return false;
    if (op->from_pinned && !fake__is_pinned(op->from, op->bytes)) {
        fake__violation("copy, %s: its host memory was unregistered meanwhile", when);
        return false;
    }
    if (op->to_pinned && !fake__is_pinned(op->to, op->bytes)) {
        fake__violation("copy, %s: the host memory it writes was unregistered meanwhile", when);
        return false;
    }
    return true;
}

void fake__forget_blocks(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = 0;
    for (size_t i = 0; i < fake.n_blocks; i++) {
        if (fake.blocks[i].live) {
            fake.blocks[n++] = fake.blocks[i];
        } else {
            munmap((void *)(fake.blocks[i].address - page), fake.blocks[i].mapped_bytes);
        }
    }
    fake.n_blocks = n;
}

/* ---- Device memory --------------------------------------------------------------------------- */

/* Grows an array by one element. */
static void *grow(void *array, size_t n, size_t size) {
    if (n & (n - 1)) return array; /* there is room up to the next power of two */
    void *grown = realloc(array, (n ? 2 * n : 1) * size);
    if (grown == NULL) abort();
    return grown;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemGetInfo)) {
        *total_bytes = fake.machine.memory_bytes;
        *free_bytes = fake.machine.memory_bytes - fake.used_bytes[call.context->device];
    }
    return fake__end(&call);
}

static CUresult alloc_block(CUcontext context, size_t bytes, CUdeviceptr *out) {
    const int device = context->device;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > fake.machine.memory_bytes - fake.used_bytes[device])
        return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t whole = (bytes + page - 1) / page * page, mapped = whole + 2 * page;
    unsigned char *map =
        mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    if (mprotect(map + page, whole, PROT_READ | PROT_WRITE) != 0) abort();
    memset(map + page, 0xff, whole);
    fake.blocks = grow(fake.blocks, fake.n_blocks, sizeof *fake.blocks);
    fake.blocks[fake.n_blocks++] = (fake_block){.address = (uintptr_t)(map + page),
                                                .bytes = bytes,
                                                .mapped_bytes = mapped,
                                                .device = device,
                                                .context = context,
                                                .live = true};
    fake.used_bytes[device] += bytes;
    *out = (uintptr_t)(map + page);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemAlloc)) call.result = alloc_block(call.context, bytes, memory);
    return fake__end(&call);
}

CUresult cuMemFree_v2(CUdeviceptr memory) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemFree)) {
        fake_block *block = find_block((uintptr_t)memory);
        if (block == NULL || block->address != memory || !block->live) {
            fake__violation("cuMemFree of 0x%llx, which is %s", memory,
                            block && !block->live ? "freed already" : "no start of a block");
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else {
            block->live = false;
            fake.used_bytes[block->device] -= block->bytes;
            if (mmap((void *)(block->address - page), block->mapped_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
                abort();
        }
    }
    return fake__end(&call);
}

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr pointer) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuPointerGetAttribute)) {
        const fake_block *block = find_block((uintptr_t)pointer);
        const bool device = block && block->live;
        if (!fake__is_live((uintptr_t)pointer, 1)) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
            *(unsigned *)out = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
            *(int *)out = device ? block->device : 0;
        } else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT && device) {
            *(CUcontext *)out = block->context;
        } else {
            call.result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return fake__end(&call);
}

/* ---- Host memory ----------------------------------------------------------------------------- */

static void add_pin(uintptr_t address, size_t bytes, bool allocated) {
    fake.pins = grow(fake.pins, fake.n_pins, sizeof *fake.pins);
    fake.pins[fake.n_pins++] =
        (fake_pin){.address = address, .bytes = bytes, .allocated = allocated};
    fake.pinned_bytes += bytes;
}

static void remove_pin(fake_pin *pin) {
    fake.pinned_bytes -= pin->bytes;
    *pin = fake.pins[--fake.n_pins];
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    fake_call call;
    (void)flags;
    if (fake__begin(&call, FAKE_cuMemHostAlloc)) {
        void *map = MAP_FAILED;
        if (fake.pinned_bytes + bytes <= fake.machine.pinned_bytes)
            map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) {
            call.result = bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
        } else {
            add_pin((uintptr_t)map, bytes, true);
            *memory = map;
        }
    }
    return fake__end(&call);
}

CUresult cuMemFreeHost(void *memory) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemFreeHost)) {
        fake_pin *pin = find_pin((uintptr_t)memory, 1);
        if (pin == NULL || !pin->allocated || pin->address != (uintptr_t)memory) {
            fake__violation("cuMemFreeHost of memory that cuMemHostAlloc did not give");
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else {
            munmap(memory, pin->bytes);
            remove_pin(pin);
        }
    }
    return fake__end(&call);
}

/* mincore() fails with ENOMEM if nothing is mapped. */
static bool is_mapped(uintptr_t address, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char in_core;
    return mincore((void *)(address / page * page), 1, &in_core) == 0 &&
           mincore((void *)((address + bytes - 1) / page * page), 1, &in_core) == 0;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    const uintptr_t address = (uintptr_t)memory;
    fake_call call;
    (void)flags;
    if (fake__begin(&call, FAKE_cuMemHostRegister)) {
        if (bytes == 0 || !is_mapped(address, bytes)) call.result = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < fake.n_pins; i++)
            if (overlaps(address, bytes, fake.pins[i].address, fake.pins[i].bytes))
                call.result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        if (call.result == CUDA_SUCCESS && fake.pinned_bytes + bytes > fake.machine.pinned_bytes)
            call.result = CUDA_ERROR_OUT_OF_MEMORY;
        if (call.result == CUDA_SUCCESS) add_pin(address, bytes, false);
    }
    return fake__end(&call);
}

CUresult cuMemHostUnregister(void *memory) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemHostUnregister)) {
        fake_pin *pin = find_pin((uintptr_t)memory, 1);
        if (pin == NULL || pin->allocated || pin->address != (uintptr_t)memory) {
            call.result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        } else {
            remove_pin(pin);
        }
    }
    return fake__end(&call);
}

/* ---- Copies and fills ------------------------------------------------------------------------ */

/* Queues it; waits if it cannot be asynchronous. */
static CUresult transfer(fake_call *call, fake_op *op, CUstream handle, bool waits) {
    CUstream stream = fake__stream(call->context, handle);
    if (stream == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (op->bytes == 0) return CUDA_SUCCESS;
    if (!fake__check(op, "when it was queued")) return CUDA_ERROR_INVALID_VALUE;
    const bool pageable = (op->kind == FAKE_OP_COPY) && ((!op->from_device && !op->from_pinned) ||
                                                         (!op->to_device && !op->to_pinned));
    const bool captured = stream->capture != NULL;
    if (pageable && !waits && !captured) fake.pageable++;
    if (op->kind == FAKE_OP_COPY && op->to_device && !op->from_device && !captured)
        fake.copied += op->bytes;
    const CUresult result = fake__queue(stream, op);
    if (result != CUDA_SUCCESS || captured || !(pageable || waits)) return result;
    fake__wait_number(stream, stream->queued);
    return stream->context->lost;
}

static fake_op copy_op(uintptr_t to, bool to_device, uintptr_t from, bool from_device,
                       size_t bytes) {
    return (fake_op){.kind = FAKE_OP_COPY,
                     .to = to,
                     .from = from,
                     .bytes = bytes,
                     .to_device = to_device,
                     .from_device = from_device,
                     .from_pinned = !from_device && fake__is_pinned(from, bytes),
                     .to_pinned = !to_device && fake__is_pinned(to, bytes)};
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemcpyDtoH)) {
        fake_op op = copy_op((uintptr_t)to, false, (uintptr_t)from, true, bytes);
        call.result = transfer(&call, &op, NULL, true);
    }
    return fake__end(&call);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemcpyHtoDAsync)) {
        fake_op op = copy_op((uintptr_t)to, true, (uintptr_t)from, false, bytes);
        call.result = transfer(&call, &op, stream, false);
    }
    return fake__end(&call);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemcpyDtoHAsync)) {
        fake_op op = copy_op((uintptr_t)to, false, (uintptr_t)from, true, bytes);
        call.result = transfer(&call, &op, stream, false);
    }
    return fake__end(&call);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemcpyDtoDAsync)) {
        fake_op op = copy_op((uintptr_t)to, true, (uintptr_t)from, true, bytes);
        call.result = transfer(&call, &op, stream, false);
    }
    return fake__end(&call);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemsetD8Async)) {
        fake_op op = {.kind = FAKE_OP_SET,
                      .to = (uintptr_t)to,
                      .to_device = true,
                      .bytes = n,
                      .value = value,
                      .value_bytes = 1};
        call.result = transfer(&call, &op, stream, false);
    }
    return fake__end(&call);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuMemsetD32Async)) {
        fake_op op = {.kind = FAKE_OP_SET,
                      .to = (uintptr_t)to,
                      .to_device = true,
                      .bytes = 4 * n,
                      .value = value,
                      .value_bytes = 4};
        call.result = to % 4 ? CUDA_ERROR_INVALID_VALUE : transfer(&call, &op, stream, false);
    }
    return fake__end(&call);
}

/* ---- In a stream's thread -------------------------------------------------------------------- */

static void run_copy(const fake_op *op) {
    if (op->hashed && fake__hash((const void *)op->from, op->bytes) != op->hash) {
        pthread_mutex_lock(&fake.lock);
        fake__violation("host memory [0x%zx, +%zu) changed between queueing a copy and the copy",
                        (size_t)op->from, op->bytes);
        pthread_mutex_unlock(&fake.lock);
    }
    memmove((void *)op->to, (const void *)op->from, op->bytes);
}

static void run_kernel(const fake_op *op) {
    fake_cuda_kernel twin = NULL;
    void *parameters[FAKE_PARAMS];
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < fake.n_kernels; i++)
        if (strcmp(fake.kernels[i].name, op->function->name) == 0) twin = fake.kernels[i].twin;
    if (twin == NULL) fake__violation("kernel %s has no twin", op->function->name);
    pthread_mutex_unlock(&fake.lock);
    for (int i = 0; i < op->function->n_params; i++)
        parameters[i] = op->payload + op->function->offsets[i];
    if (twin) twin(parameters, op->grid, op->block);
}

void fake__execute(fake_op *op) {
    switch (op->kind) {
    case FAKE_OP_COPY: run_copy(op); break;
    case FAKE_OP_SET:
        if (op->value_bytes == 1) {
            memset((void *)op->to, (int)op->value, op->bytes);
        } else {
            for (size_t i = 0; i < op->bytes; i += 4)
                memcpy((void *)(op->to + i), &op->value, 4);
        }
        break;
    case FAKE_OP_KERNEL: run_kernel(op); break;
    case FAKE_OP_RUN: op->run(op->payload); break;
    case FAKE_OP_MARK:
    case FAKE_OP_WAIT: break;
    }
}
