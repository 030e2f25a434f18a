# Installs the build, moves it, and asks whether the program there finds its own data and says where it looked. A file
# that is spoiled on purpose tells that it is read from there and not from the sources.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)

file(REMOVE_RECURSE ${WORK})
step("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first --config ${CONFIG})
if(NOT EXISTS ${WORK}/first/bin/narrow)
  message(FATAL_ERROR "no program was installed")
endif()
foreach(file man/man1/narrow.1.gz man/man1/narrow-validate.1.gz bash-completion/completions/narrow zsh/site-functions/_narrow
        fish/vendor_completions.d/narrow.fish)
  if(NOT EXISTS ${WORK}/first/share/${file})
    message(FATAL_ERROR "share/${file} was not installed")
  endif()
endforeach()
file(RENAME ${WORK}/first ${WORK}/moved)
set(program ${WORK}/moved/bin/narrow)
set(data ${WORK}/moved/share/narrow/data)
unset(ENV{NARROW_DATA})

# Fails with status 2 and one line that matches.
function(refuses what pattern)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 2 OR NOT text MATCHES "${pattern}" OR text MATCHES "\n.*\n")
    message(FATAL_ERROR "${what}: expected status 2 and one line with '${pattern}', got ${status}:\n${text}")
  endif()
endfunction()

# As on a machine without the sources: the folder that was installed is the only one.
set(ENV{NARROW_DATA} ${data})
foreach(words "gradient_underflow" "attention_overflow;longest=64;trials=1" "gradient_accumulation;most=2" "all_reduce" "fp8_scaling"
        "operation_policy" "format_choice" "memory_and_speed" "gpu_block;length=8")
  step("${words}" ${program} run ${words} --fast --json)
  if(text MATCHES "made numbers|NARROW_DATA")
    message(FATAL_ERROR "${words}: the recording was not found:\n${text}")
  endif()
endforeach()
unset(ENV{NARROW_DATA})
foreach(pair "torch/histograms.json;run;gradient_underflow" "torch/step1000.safetensors;run;attention_overflow"
        "torch/logs.json;run;loss_scaling" "watched-run/run.json;run;watched_run"
        "torch/micro_batches.safetensors;run;gradient_accumulation"
        "torch/step300.safetensors;run;fp8_scaling" "golden/products.tsv;gpu;plan;16;16;16"
        "golden/blocks.tsv;run;gpu_block;length=8")
  list(POP_FRONT pair name)
  file(RENAME ${data}/${name} ${data}/kept)
  file(WRITE ${data}/${name} "spoiled\nspoiled\n")
  refuses("${name} is read from the moved folder" "moved/share/narrow/data/${name}" ${program} ${pair})
  file(REMOVE ${data}/${name})
  file(RENAME ${data}/kept ${data}/${name})
endforeach()
set(ENV{NARROW_DATA} ${WORK}/moved/share)
refuses("a missing file names where it was looked for" "golden/products.tsv was not found in .*moved/share;" ${program}
        gpu plan 16 16 16)
refuses("a missing recording too" "torch/histograms.json was not found in .*moved/share;" ${program} run
        gradient_underflow)
unset(ENV{NARROW_DATA})

# A lesson lies in no installation when it runs: the program tells it where the data is.
file(WRITE ${WORK}/lesson.sh "#!/bin/sh\nprintf %s \"$NARROW_DATA\" > ${WORK}/told\n")
file(CHMOD ${WORK}/lesson.sh PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
execute_process(COMMAND ${program} notebook ${WORK}/moved/share/narrow/notebooks/10_predicting_a_cublas_product.cpp
                --program ${WORK}/lesson.sh -o ${WORK}/lesson.html OUTPUT_QUIET ERROR_QUIET)
file(READ ${WORK}/told told)
if(NOT told STREQUAL data)
  message(FATAL_ERROR "a lesson is told that the data is in '${told}', not in ${data}")
endif()
file(REMOVE_RECURSE ${WORK})
