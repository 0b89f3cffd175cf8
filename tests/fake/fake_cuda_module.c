/*
 * fake_cuda_module.c - modules and launches. It reads .version, .target, and each .entry with its
 * .param list from PTX text, and ignores the rest. A kernel's twin does its work.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/fake_cuda_internal.h"

#define SHARED_MOST (48 << 10) /* bytes of a block, unless the function is given more */

/* ---- PTX ------------------------------------------------------------------------------------- */

/* A copy of the text without comments. */
static char *without_comments(const char *text) {
    char *copy = malloc(strlen(text) + 1), *out = copy;
    if (copy == NULL) abort();
    while (*text) {
        if (text[0] == '/' && text[1] == '/') {
            while (*text && *text != '\n')
                text++;
        } else if (text[0] == '/' && text[1] == '*') {
            const char *close = strstr(text + 2, "*/");
            text = close ? close + 2 : text + strlen(text);
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
    return copy;
}

/* Reads one declaration, ".param .align 8 .b8 name[64]", into the function. */
static bool read_param(CUfunction function, const char *at, const char *end) {
    size_t size = 0, align = 0, n = 1;
    for (const char *p = at; p < end; p++) {
        unsigned long number = 0;
        if (strncmp(p, ".align", 6) == 0) align = strtoul(p + 6, NULL, 10);
        if (*p == '[') n = strtoul(p + 1, NULL, 10);
        if (*p == '.' && strchr("busf", p[1]) && isdigit((unsigned char)p[2]))
            number = strtoul(p + 2, NULL, 10);
        if (number && size == 0) size = number / 8;
        /* what follows describes the target of the pointer */
        if (strncmp(p, ".ptr", 4) == 0) break;
    }
    if (size == 0 || n == 0 || function->n_params == FAKE_PARAMS) return false;
    if (align < size) align = size;
    function->bytes = (function->bytes + align - 1) / align * align;
    function->offsets[function->n_params] = function->bytes;
    function->sizes[function->n_params++] = size * n;
    function->bytes += size * n;
    return true;
}

/* Reads "name(parameters)" after .entry; returns NULL if it is not one. */
static CUfunction read_entry(const char *at) {
    const char *open = strchr(at, '('), *brace = strchr(at, '{');
    CUfunction function = calloc(1, sizeof *function);
    if (function == NULL) abort();
    if (brace && open && open > brace) open = NULL; /* no parameters */
    const char *close = open ? strchr(open, ')') : NULL;
    if (sscanf(at, " %255[A-Za-z0-9_$]", function->name) != 1 || (open && !close)) goto fail;
    if (open == NULL) return function;
    for (const char *p = strstr(open, ".param"); p && p < close; p = strstr(p + 6, ".param")) {
        const char *comma = strchr(p, ',');
        if (!read_param(function, p + 6, comma && comma < close ? comma : close)) goto fail;
    }
    return function;
fail:
    free(function);
    return NULL;
}

static CUresult read_module(CUmodule module, const char *text) {
    int major = 0, minor = 0, target = 0;
    const char *version = strstr(text, ".version"), *sm = strstr(text, ".target");
    if (version == NULL || sscanf(version, ".version %d.%d", &major, &minor) != 2)
        return CUDA_ERROR_INVALID_IMAGE;
    if (sm == NULL || sscanf(sm, ".target sm_%d", &target) != 1) return CUDA_ERROR_INVALID_PTX;
    if (10 * major + minor > fake.machine.ptx_version) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (target > fake.machine.capability) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (const char *p = strstr(text, ".entry"); p; p = strstr(p + 6, ".entry")) {
        CUfunction function = read_entry(p + 6);
        if (function == NULL) return CUDA_ERROR_INVALID_PTX;
        function->module = module;
        function->next = module->functions;
        module->functions = function;
    }
    return CUDA_SUCCESS;
}

/* Writes the log of a just-in-time compiler. */
static void write_log(CUresult result, unsigned n_options, const CUjit_option *options,
                      void **values) {
    size_t bytes = 0;
    for (unsigned i = 0; i < n_options; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) bytes = (size_t)(uintptr_t)values[i];
    for (unsigned i = 0; i < n_options; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER && bytes)
            snprintf(values[i], bytes, "%s",
                     result == CUDA_SUCCESS ? "" : "ptxas fatal: as the fake has it");
}

/* ---- Modules --------------------------------------------------------------------------------- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n_options,
                            CUjit_option *options, void **values) {
    fake_call call;
    *module = NULL;
    if (fake__begin(&call, FAKE_cuModuleLoadDataEx)) {
        CUmodule own = calloc(1, sizeof *own);
        char *text = without_comments(image);
        if (own == NULL) abort();
        call.result = read_module(own, text);
        own->context = call.context;
        own->alive = call.result == CUDA_SUCCESS;
        own->next = fake.modules;
        fake.modules = own;
        if (own->alive) *module = own;
        free(text);
        write_log(call.result, n_options, options, values);
    }
    return fake__end(&call);
}

CUresult cuModuleUnload(CUmodule module) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuModuleUnload)) {
        if (!module->alive) call.result = CUDA_ERROR_INVALID_HANDLE;
        module->alive = false;
    }
    return fake__end(&call);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    fake_call call;
    *function = NULL;
    if (fake__begin(&call, FAKE_cuModuleGetFunction)) {
        call.result = module->alive ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
        for (CUfunction f = module->functions; f && module->alive; f = f->next)
            if (strcmp(f->name, name) == 0) {
                *function = f;
                call.result = CUDA_SUCCESS;
            }
    }
    return fake__end(&call);
}

static CUresult launch(const fake_call *call, fake_op *op, CUstream handle, void **parameters) {
    const CUfunction function = op->function;
    CUstream stream = fake__stream(call->context, handle);
    unsigned char payload[4096];
    if (stream == NULL || stream->context != call->context || !function->module->alive ||
        function->module->context != call->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (function->bytes > sizeof payload) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < function->n_params; i++)
        memcpy(payload + function->offsets[i], parameters[i], function->sizes[i]);
    op->payload = payload;
    op->payload_bytes = function->bytes;
    return fake__queue(stream, op);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuLaunchKernel)) {
        const unsigned long long threads = (unsigned long long)block_x * block_y * block_z;
        fake_op op = {.kind = FAKE_OP_KERNEL,
                      .function = function,
                      .grid = {grid_x, grid_y, grid_z},
                      .block = {block_x, block_y, block_z}};
        if (threads == 0 || threads > 1024 || block_z > 64 || grid_x == 0 || grid_y == 0 ||
            grid_z == 0 || grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535 || extra ||
            shared_bytes > SHARED_MOST) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else {
            call.result = launch(&call, &op, stream, parameters);
        }
    }
    return fake__end(&call);
}
