# MPI for narrow-mpi: any implementation of MPI 3. AUTO builds it where one is found, ON insists.
set(NARROW_MPI "AUTO" CACHE STRING "The program narrow-mpi: AUTO, ON or OFF")
set_property(CACHE NARROW_MPI PROPERTY STRINGS AUTO ON OFF)
set(narrow_has_mpi OFF)
if(NARROW_MPI AND NARROW_APPS AND NOT NARROW_SANITIZE)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface is enough
  find_package(MPI 3 QUIET COMPONENTS CXX)
  set(narrow_has_mpi ${MPI_CXX_FOUND})
  if(NARROW_MPI STREQUAL "ON" AND NOT narrow_has_mpi)
    message(FATAL_ERROR "NARROW_MPI=ON: no MPI 3 found; Debian: libopenmpi-dev openmpi-bin")
  endif()
endif()
