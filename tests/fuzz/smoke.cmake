# Builds the fuzz targets and runs each for a few seconds from its seeds. Usage: cmake -D ROOT=<source folder>
# -D WORK=<folder> -D CLANG=<clang++> -D GENERATOR=<name> -D SECONDS=<for each> -P smoke.cmake
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${WORK})
file(WRITE ${WORK}/probe.cpp
     "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
execute_process(COMMAND ${CLANG} -fsanitize=fuzzer,address ${WORK}/probe.cpp -o ${WORK}/probe
                RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
if(NOT status EQUAL 0)
  message("skipped: ${CLANG} has no libFuzzer (Debian: libclang-rt-dev)")
  return()
endif()

include(${ROOT}/tests/build/step.cmake)
step("configure" ${CMAKE_COMMAND} -S ${ROOT} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CLANG}
     -D CMAKE_BUILD_TYPE=Debug -D NARROW_FUZZ=ON -D NARROW_FUZZ_LEVEL=-O0 -D NARROW_APPS=OFF -D NARROW_TESTS=OFF -D NARROW_CUDA=OFF)
# Without the targets that take long to build.
set(kinds
  cast
  npy
  npz
  safetensors
  scale_log
  sharded
  watched_run)
list(TRANSFORM kinds PREPEND fuzz_ OUTPUT_VARIABLE targets)
step("build" ${CMAKE_COMMAND} --build ${WORK}/build --target ${targets})
foreach(kind ${kinds})
  file(REMOVE_RECURSE ${WORK}/found/${kind})
  file(MAKE_DIRECTORY ${WORK}/found/${kind})
  step("fuzz_${kind}" ${WORK}/build/tests/fuzz/fuzz_${kind} -max_total_time=${SECONDS} -max_len=65536
       -malloc_limit_mb=256 -timeout=10 -dict=${ROOT}/tests/fuzz/words.dict -artifact_prefix=${WORK}/ -print_final_stats=1
       ${WORK}/found/${kind} ${ROOT}/tests/fuzz/corpus/${kind})
  string(REGEX MATCH "number_of_executed_units: [0-9]+" count "${text}")
  message("fuzz_${kind}: ${count} in ${SECONDS} s, no finding")
endforeach()
