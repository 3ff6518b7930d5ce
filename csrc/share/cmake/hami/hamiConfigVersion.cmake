# The version of this package is the one of the plugin border (HAMI_ABI_MAJOR.HAMI_ABI_MINOR): a plugin that needs 1.2 builds
# against every 1.x from there on.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../../../include/hami/abi.h" hami_lines
  REGEX "^#define HAMI_ABI_(MAJOR|MINOR) [0-9]+$")
string(REGEX REPLACE ".*HAMI_ABI_MAJOR ([0-9]+).*" "\\1" hami_major "${hami_lines}")
string(REGEX REPLACE ".*HAMI_ABI_MINOR ([0-9]+).*" "\\1" hami_minor "${hami_lines}")
set(PACKAGE_VERSION "${hami_major}.${hami_minor}")

if(PACKAGE_FIND_VERSION_MAJOR EQUAL hami_major AND PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
elseif(NOT PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
else()
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
