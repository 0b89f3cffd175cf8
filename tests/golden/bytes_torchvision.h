/* Made by make_bytes.py: what torchvision 0.14.1a0 makes of the bytes 0 to 255 (Pillow 9.4.0). */
#ifndef TESTS_GOLDEN_BYTES_TORCHVISION_H
#define TESTS_GOLDEN_BYTES_TORCHVISION_H

#include <stdint.h>

/* clang-format off */
static const struct torchvision_bytes {
    const char *chain;
    uint64_t hash;
} torchvision_bytes[] = {
    {"posterize:0", UINT64_C(0xd80ac658736bb725)},
    {"posterize:1", UINT64_C(0x27db65b92c5bb725)},
    {"posterize:2", UINT64_C(0xabdef9a88fc3b725)},
    {"posterize:3", UINT64_C(0xfaa27eff7b9fdd25)},
    {"posterize:4", UINT64_C(0xf1f62d80ceebd525)},
    {"posterize:5", UINT64_C(0x8f57bee5478def25)},
    {"posterize:6", UINT64_C(0x1e0ca8ba830b0925)},
    {"posterize:7", UINT64_C(0x2b73a6cd139f9b25)},
    {"posterize:8", UINT64_C(0x4242dc5249c33625)},
    {"solarize:0", UINT64_C(0x02a06ff442d86525)},
    {"solarize:1", UINT64_C(0xa0c091f60ab4ddda)},
    {"solarize:37", UINT64_C(0xafd549f1db00b706)},
    {"solarize:64", UINT64_C(0xada8213b8c0eea65)},
    {"solarize:127", UINT64_C(0x5e5c05d8f8f4fca8)},
    {"solarize:128", UINT64_C(0x741328b415b429a5)},
    {"solarize:129", UINT64_C(0x46e9fe9f2226ef5a)},
    {"solarize:200", UINT64_C(0xdaa3d76855d2cd8d)},
    {"solarize:255", UINT64_C(0x42424d5249c24328)},
    {"invert", UINT64_C(0x02a06ff442d86525)},
    {"gamma:0,1", UINT64_C(0x2590af3457808025)},
    {"gamma:0,0.5", UINT64_C(0xda8f666f002e8025)},
    {"gamma:0,1.75", UINT64_C(0x2590af3457808025)},
    {"gamma:0.1,1", UINT64_C(0x510a09376e040ed2)},
    {"gamma:0.1,0.5", UINT64_C(0x8237014b28bfeeae)},
    {"gamma:0.1,1.75", UINT64_C(0x2f75c19c2b02dada)},
    {"gamma:0.4,1", UINT64_C(0x40d4e6c08b254745)},
    {"gamma:0.4,0.5", UINT64_C(0xbfe43894f5162844)},
    {"gamma:0.4,1.75", UINT64_C(0xe3707fb2833095da)},
    {"gamma:0.45,1", UINT64_C(0x4538031edabec5d9)},
    {"gamma:0.45,0.5", UINT64_C(0xb5be37c81d3033c7)},
    {"gamma:0.45,1.75", UINT64_C(0x48184e2ef3b369ce)},
    {"gamma:0.5,1", UINT64_C(0x1ad03c70bd21d135)},
    {"gamma:0.5,0.5", UINT64_C(0x7e1cefe8e2d6b039)},
    {"gamma:0.5,1.75", UINT64_C(0x3b99a9ea05527c66)},
    {"gamma:0.9,1", UINT64_C(0x6d94375be9f77ad7)},
    {"gamma:0.9,0.5", UINT64_C(0x88daf71200438f48)},
    {"gamma:0.9,1.75", UINT64_C(0x18caa088fbe2c884)},
    {"gamma:1,1", UINT64_C(0x4242dc5249c33625)},
    {"gamma:1,0.5", UINT64_C(0x0e3683759d531325)},
    {"gamma:1,1.75", UINT64_C(0x88b5ef96dc8fa5a5)},
    {"gamma:1.1,1", UINT64_C(0x4b8eb0b36f8eed16)},
    {"gamma:1.1,0.5", UINT64_C(0x020022146f0959d1)},
    {"gamma:1.1,1.75", UINT64_C(0x3c7edb7e9f8123be)},
    {"gamma:1.8,1", UINT64_C(0x82dd1675aa1c9b9c)},
    {"gamma:1.8,0.5", UINT64_C(0x5e34fbd9677cfba1)},
    {"gamma:1.8,1.75", UINT64_C(0x415aa113d05aa197)},
    {"gamma:2.2,1", UINT64_C(0x4eecf7aade31dbd9)},
    {"gamma:2.2,0.5", UINT64_C(0x4f4c9f1ad0bea914)},
    {"gamma:2.2,1.75", UINT64_C(0x4e64e5c30d67b555)},
    {"gamma:2.4,1", UINT64_C(0x649ee8a51340832a)},
    {"gamma:2.4,0.5", UINT64_C(0x278f71597a8105ee)},
    {"gamma:2.4,1.75", UINT64_C(0x6a1a595c13cb549c)},
    {"gamma:3,1", UINT64_C(0x13768f6629767ab9)},
    {"gamma:3,0.5", UINT64_C(0x19d2c23c555f6928)},
    {"gamma:3,1.75", UINT64_C(0x03eff6ca217b2d7c)},
    {"gamma:10,1", UINT64_C(0x0b89e0e36a62e78a)},
    {"gamma:10,0.5", UINT64_C(0x82144bbafa1b64e8)},
    {"gamma:10,1.75", UINT64_C(0x9a3378932b68f3ea)},
};
/* clang-format on */

#endif
