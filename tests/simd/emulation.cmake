# The lanes of the other architecture in emulation: the bits of the scalar functions, as on its own machines.
# Usage: cmake -D ROOT= -D BUILD= -D OTHER=<x86_64|aarch64> -D PART=<build|instruction set> -D GENERATOR= -P emulation.cmake
cmake_minimum_required(VERSION 3.25)
find_program(COMPILER ${OTHER}-linux-gnu-g++)
find_program(EMULATOR qemu-${OTHER})
if(NOT COMPILER OR NOT EMULATOR)
  message(STATUS "skipped: it needs ${OTHER}-linux-gnu-g++ and qemu-${OTHER}")
  return()
endif()

include(${ROOT}/tests/build/step.cmake)
if(PART STREQUAL "build")
  # Nothing that is run here unpacks files, so that an archive without members does for zlib. Headers alone: /usr/include
  # itself has those of this architecture, too.
  file(MAKE_DIRECTORY ${BUILD}/headers)
  file(WRITE ${BUILD}/libz.a "!<arch>\n")
  foreach(header CLI boost doctest eigen3/Eigen fmt nlohmann zlib.h zconf.h)
    get_filename_component(name ${header} NAME)
    file(CREATE_LINK /usr/include/${header} ${BUILD}/headers/${name} SYMBOLIC)
  endforeach()
  step("configure" ${CMAKE_COMMAND} -S ${ROOT} -B ${BUILD} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release -DNARROW_UNITY=ON -DNARROW_APPS=OFF
    -DNARROW_CUDA=OFF -DNARROW_NOTEBOOKS=OFF -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=${OTHER}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DNARROW_HEADERS=${BUILD}/headers -DNARROW_BOOST_INCLUDE=${BUILD}/headers
    -DZLIB_INCLUDE_DIR=${BUILD}/headers -DZLIB_LIBRARY=${BUILD}/libz.a -DNARROW_MPFR_LIBRARY=OFF
    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--unresolved-symbols=ignore-all,-z,lazy")
  step("build" ${CMAKE_COMMAND} --build ${BUILD} --parallel 2 --target array_tests scale_tests dot_fast_path_tests)
  return()
endif()

set(ENV{NARROW_SIMD} ${PART})
set(ENV{NARROW_TEST_SCALE} 0.001)
set(ENV{OMP_NUM_THREADS} 1)
# What touches every kernel; emulated it takes thirty times as long.
set(cases_of_array "array: floats go where*,array: e8m0 treats*,array: the casts of real*,array: millions of spread*,array: random words*"
  "array: *decode*,array: *histogram*,array: statistics of each single*,array: the statistics of every short*,array: statistics of data without*")
set(cases_of_scale "scale: the array functions*,scale: MX blocks*,scale: NVFP4*")
set(cases_of_dot "gemm: the fast path*")
foreach(module array scale dot)
  set(program ${module}_tests)
  if(module STREQUAL "dot")
    set(program dot_fast_path_tests)
  endif()
  list(JOIN cases_of_${module} "," cases)
  string(TIMESTAMP start "%s")
  step("${PART}, ${program}" ${EMULATOR} -L /usr/${OTHER}-linux-gnu -cpu max ${BUILD}/tests/${module}/${program} "--test-case=${cases}")
  string(TIMESTAMP end "%s")
  math(EXPR seconds "${end} - ${start}")
  string(REGEX MATCH "test cases: +[1-9][0-9]* [^\n]*" counts "${text}")
  if(NOT counts)
    message(FATAL_ERROR "${program}: no test case is named ${cases}")
  endif()
  message(STATUS "${PART}, ${program}: ${counts} in ${seconds} s")
endforeach()
