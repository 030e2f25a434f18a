# Installs the build into a new folder and builds and runs a project that finds it there.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)

file(REMOVE_RECURSE ${WORK})
set(flags "")
if(SANITIZE)  # a sanitized library needs its runtime
  set(flags "-fsanitize=${SANITIZE}")
endif()
step("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --config ${CONFIG})
step("configure" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${WORK}/prefix
     -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${flags} -D CMAKE_BUILD_TYPE=${CONFIG})
step("build" ${CMAKE_COMMAND} --build ${WORK}/build --config ${CONFIG})
foreach(program consumer core_consumer plot_consumer example)
  step("${program}" ${WORK}/build/${program})
  message(STATUS "${program}: ${text}")
endforeach()
if(EXISTS ${WORK}/prefix/bin/narrow)
  step("the installed program" ${WORK}/prefix/bin/narrow show 0.1 --formats fp16)
endif()
file(REMOVE_RECURSE ${WORK})
