/* fuzz_jpeg.c - JPEGs, decoded whole, in parts and smaller; the properties are in fuzz_image.h. */
#include "tests/support/fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
#ifdef ITER_HAVE_JPEG
    fuzz_image(&iter__decoder_jpeg, data, size);
#else
    (void)data, (void)size, (void)fuzz_image; /* without the library every file is refused */
#endif
    return 0;
}
