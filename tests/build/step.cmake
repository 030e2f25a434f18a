# step(<what> <command..>): runs it, fails with what it said; its output is left in `text`.
function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed:\n${text}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()
