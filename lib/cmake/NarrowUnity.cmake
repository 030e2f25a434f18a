# narrow_unity(<target> <size>): with NARROW_UNITY the sources of a target that lie in one folder are compiled together, `size`
# at a time: their headers are read once, and templates that all of them use are compiled once. A folder is a namespace of
# helpers then: names in unnamed namespaces must differ within it.
function(narrow_unity target size)
  if(NOT NARROW_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Unnamed namespaces of a .cpp file look like those of a header then, and names of one file shadow those of its neighbours.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>
                                           $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cpp$")
      continue()
    endif()
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    set(count 0)
    if(DEFINED count_${folder})
      set(count ${count_${folder}})
    endif()
    math(EXPR group "${count} / ${size}")
    math(EXPR count_${folder} "${count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()
