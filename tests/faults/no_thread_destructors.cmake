# Fails where PROGRAM has a thread_local object with a destructor: glibc ends the program when the memory to note one is
# missing. All symbols are looked at: a C++ library linked statically defines what another build leaves undefined.
# Usage: cmake -D NM=<nm> -D PROGRAM=<file> -P no_thread_destructors.cmake
execute_process(COMMAND ${NM} ${PROGRAM} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
if(NOT symbols MATCHES "__cxa_throw")
  message(FATAL_ERROR "${NM} does not name what ${PROGRAM} calls")
elseif(symbols MATCHES "__cxa_thread_atexit")
  message(FATAL_ERROR "${PROGRAM} notes destructors of thread_local objects")
endif()
