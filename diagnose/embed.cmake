# Turns a file into a C array: cmake -DFROM=report.html -DTO=report_template.c -DNAME=report_template -P embed.cmake
file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n   " bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" " 0x\\1," bytes "${bytes}")
get_filename_component(from "${FROM}" NAME)
file(WRITE "${TO}" "/* ${from} as bytes; made by embed.cmake. */
#include \"diagnose/report_html.h\"

const unsigned char ${NAME}[] = {
   ${bytes}
};
const size_t ${NAME}_bytes = sizeof(${NAME});
")
