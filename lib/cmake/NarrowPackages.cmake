# Debian packages, by CPack: `cmake --preset package && cmake --build --preset package --target package`. What goes where is said
# by the install rules themselves, whose components are the packages:
#   program  narrow         the program, its manual, completion for bash, zsh and fish
#   data     narrow-data    recordings, lessons, the explorer's page
#   dev      libnarrow-dev  headers, archives, CMake's files
#   python3  python3-narrow the Python package for Debian's interpreter, where it was built
#   mpi      narrow-mpi     the same program over MPI ranks, where it was built
set(NARROW_MAINTAINER "The narrow developers <narrow@example.org>" CACHE STRING "Who answers for the packages: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME narrow)
set(CPACK_PACKAGE_VENDOR narrow)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "number formats of machine learning, bit for bit")
string(REPLACE "-" "~" CPACK_PACKAGE_VERSION ${narrow_version})  # 1.0.0~rc1 is before 1.0.0
set(CPACK_PACKAGE_CONTACT "${NARROW_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL program data dev)

set(narrow_about "What a number format does to a number, how each rounding rule and each real
system (CUDA, PyTorch, ml_dtypes, ONNX) converts it, what a GPU's tensor
cores make of a matrix product, what loss scalers and FP8 recipes do over a
run, and whether a model still trains.
.")
# narrow_package(COMPONENT NAME LAST_SENTENCE DEPENDS SECTION)
macro(narrow_package component name sentence depends section)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${narrow_about}\n${sentence}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  # Policy asks every package for both; a native package's changes are in changelog.gz.
  set(pages ${PROJECT_BINARY_DIR}/packages/${name})
  configure_file(${PROJECT_SOURCE_DIR}/lib/cmake/copyright.in ${pages}/copyright @ONLY)
  configure_file(${PROJECT_SOURCE_DIR}/lib/cmake/changelog.in ${pages}/changelog @ONLY)
  execute_process(COMMAND gzip -9nkf ${pages}/changelog)
  install(FILES ${pages}/copyright ${pages}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component}
          EXCLUDE_FROM_ALL)
endmacro()

# The licence as it is, each line indented, an empty one a dot.
file(READ ${PROJECT_SOURCE_DIR}/LICENSE narrow_licence)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]+)" found "${narrow_licence}")
set(narrow_copyright "${CMAKE_MATCH_1}")
string(REGEX REPLACE "^.*Copyright [^\n]+\n+" "" narrow_licence "${narrow_licence}")
string(REGEX REPLACE "\n+$" "" narrow_licence "${narrow_licence}")
string(REGEX REPLACE "\n\n" "\n.\n" narrow_licence "${narrow_licence}")
string(REPLACE "\n" "\n " narrow_licence " ${narrow_licence}")
string(TIMESTAMP narrow_date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
set(same "(= ${CPACK_PACKAGE_VERSION})")
narrow_package(program narrow "This package has the program, its manual and shell completion." "" science)
narrow_package(data narrow-data
  "This package has recordings of real systems, lessons, and the explorer's page\nwhere it was built." "" science)
narrow_package(dev libnarrow-dev
  "This package has the headers and archives of the C++20 library." "zlib1g-dev, libstdc++-12-dev | libstdc++-dev" libdevel)
set(CPACK_DEBIAN_DATA_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DATA_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "narrow-data ${same}, gnuplot-nox")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libnarrow-dev, python3-narrow, g++")
if(narrow_has_python)
  list(APPEND CPACK_COMPONENTS_ALL python3)
  math(EXPR next "${Python_VERSION_MINOR} + 1")
  narrow_package(python3 python3-narrow
    "This package has the Python package narrow for arrays of NumPy, PyTorch and\nothers."
    "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next}), python3-numpy" python)
  set(CPACK_DEBIAN_PYTHON3_PACKAGE_RECOMMENDS "narrow-data ${same}")
  set(CPACK_DEBIAN_PYTHON3_PACKAGE_SUGGESTS "narrow, python3-torch")
endif()
if(narrow_has_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  narrow_package(mpi narrow-mpi
    "This package has the program for clusters: the same commands over MPI ranks." "narrow ${same}" science)
endif()
include(CPack)
