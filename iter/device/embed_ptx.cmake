# Turns PTX into a C string: cmake -DFROM=kernels.ptx -DTO=kernels_ptx.c -DNAME=iter__kernels_ptx -P embed_ptx.cmake
file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n   " bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" " 0x\\1," bytes "${bytes}")
get_filename_component(from "${FROM}" NAME)
file(WRITE "${TO}" "/* ${from} as text; made by embed_ptx.cmake. */
extern const char ${NAME}[];
const char ${NAME}[] = {
   ${bytes} 0x00,
};
")
