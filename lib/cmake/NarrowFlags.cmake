# Flags of our own targets. -ffp-contract=off is not here: it is part of what narrow::core promises (lib/CMakeLists.txt).
add_library(narrow_flags INTERFACE)
target_compile_options(narrow_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>
  # g++ looks for garbage from 128 MB on, and finds little: up to 1 GB it is not worth the time (6 % of the largest files).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion>
  # Where files are compiled together, names of one shadow those of its neighbours, and unnamed namespaces of a .cpp file look
  # like those of a header.
  $<$<COMPILE_LANGUAGE:CXX>:$<IF:$<BOOL:${NARROW_UNITY}>,-Wno-shadow,-Wshadow>>
  $<$<AND:$<BOOL:${NARROW_UNITY}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>
  # g++ 12 warns of overlapping copies inside std::string that are none (GCC bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  # g++ 13 takes a reference into a table for one into the name that was looked up, and at -O1 copies inside vector, string and
  # Boost's integers for copies beyond their ends.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference
    -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-maybe-uninitialized>
  $<$<AND:$<BOOL:${NARROW_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>
  $<$<AND:$<BOOL:${NARROW_NATIVE}>,$<COMPILE_LANGUAGE:CXX>>:-march=native>)
if(NARROW_SANITIZE)
  target_compile_options(narrow_flags INTERFACE -fsanitize=${NARROW_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(narrow_flags INTERFACE -fsanitize=${NARROW_SANITIZE})
endif()

# At -O1 g++ leaves the upper halves of registers as code for AVX left them, and every call of libm's fma, which is for AVX
# itself, then waits 100 ns for them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(narrow_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-mvzeroupper>)
endif()

# For code that parses, prints and asks the library to do the work: it compiles a third faster, and nobody waits for it.
add_library(narrow_light INTERFACE)
target_compile_options(narrow_light INTERFACE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
