# find_package(hami): the headers for backends that are compiled outside of hami.
#
#   find_package(hami REQUIRED)        with -Dhami_DIR="$(python -m hami --cmake-dir)"
#   hami_add_plugin(mine mine.cc)      makes libmine.so, to be loaded with hami.load("libmine.so")
#
# hami::hami is an interface target with the include folder alone: nothing is linked.
cmake_minimum_required(VERSION 3.20)

get_filename_component(hami_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../include" ABSOLUTE)

if(NOT TARGET hami::hami)
  add_library(hami::hami INTERFACE IMPORTED)
  set_target_properties(hami::hami PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${hami_INCLUDE_DIR}"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()

# The name of the target is the family under which `hami backends` lists the plugin's classes.
function(hami_add_plugin target)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE hami::hami)
  target_compile_definitions(${target} PRIVATE HAMI_PLUGIN_NAME="${target}")
  # Plugins share a process: what one defines must not stand in for what another means.
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()
