# Matplot++, one more pen for the pictures: where NARROW_MATPLOT asks for it, what is installed, else the sources at a commit
# that was tried (FETCHCONTENT_SOURCE_DIR_MATPLOTPLUSPLUS names a folder that has them, for builds without a network).
option(NARROW_MATPLOT "Draw by Matplot++ as well (--plot-backend matplot)" OFF)
if(NARROW_MATPLOT)
  find_package(Matplot++ QUIET)
  if(NOT TARGET Matplot++::matplot)
    block()
      include(FetchContent)
      FetchContent_Declare(matplotplusplus GIT_REPOSITORY https://github.com/alandefreitas/matplotplusplus.git
                           GIT_TAG 24eab5f285af7613f34f08e99c459808f015030f)
      foreach(part EXAMPLES TESTS INSTALLER PACKAGE SHARED_LIBS)
        set(MATPLOTPP_BUILD_${part} OFF)
      endforeach()
      set(BUILD_SHARED_LIBS OFF)
      # It reads images with these, and no picture here holds one.
      foreach(package JPEG TIFF PNG LAPACK BLAS FFTW OpenCV PkgConfig)
        set(CMAKE_DISABLE_FIND_PACKAGE_${package} ON)
      endforeach()
      FetchContent_GetProperties(matplotplusplus)
      if(NOT matplotplusplus_POPULATED)
        FetchContent_Populate(matplotplusplus)
        # Not part of `all`: only what the pictures need, and nothing of it is installed.
        add_subdirectory(${matplotplusplus_SOURCE_DIR} ${matplotplusplus_BINARY_DIR} EXCLUDE_FROM_ALL)
      endif()
    endblock()
  endif()
endif()
