# Kernels in lanes: files NAME_lanes.cpp, compiled once for each instruction set, which is chosen when the program runs
# (narrow/simd). A row is a name (those of NARROW_TARGETS in simd/target.hpp) and its flags.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(narrow_lane_targets sse2 avx2 avx512)
  set(narrow_flags_of_avx2 -mavx2 -mfma -mf16c -DNARROW_LANES_AVX2)
  # g++ 12 takes the registers that AVX-512 intrinsics leave undefined on purpose for mistakes.
  set(narrow_flags_of_avx512 -Wno-uninitialized -Wno-maybe-uninitialized -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -DNARROW_LANES_AVX512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(narrow_lane_targets neon)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^wasm")
  set(narrow_lane_targets wasm128)
else()
  set(narrow_lane_targets plain)
endif()

# Adds the objects of all instruction sets to a library; to one of objects, which cannot hold others', they are beside it:
# LIBRARY_NAME.
function(narrow_lanes library)
  get_target_property(type ${library} TYPE)
  foreach(name ${narrow_lane_targets})
    add_library(${library}_${name} OBJECT ${ARGN})
    target_compile_definitions(${library}_${name} PRIVATE NARROW_LANES=${name})
    target_compile_options(${library}_${name} PRIVATE ${narrow_flags_of_${name}})
    target_link_libraries(${library}_${name} PUBLIC narrow_core PRIVATE $<BUILD_INTERFACE:narrow_flags>)
    if(NOT type STREQUAL "OBJECT_LIBRARY")
      target_sources(${library} PRIVATE $<TARGET_OBJECTS:${library}_${name}>)
    endif()
  endforeach()
endfunction()
