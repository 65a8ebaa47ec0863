# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# mv_rooms(RET NAME ROOMS ROOM ... SOURCES FILE ... [LIBRARIES LIBRARY ...] [DEFINITIONS NAME=VALUE ...])
#
# Rooms are the folders of a component, lowest first. Each is an object library NAME-ROOM, whose files find headers of that
# room and of those before it, and of no other: an include that goes up does not compile. RET: the objects of all.
function(mv_rooms ret name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ROOMS;SOURCES;LIBRARIES;DEFINITIONS")
  foreach(room IN LISTS arg_ROOMS)
    list(APPEND below ${CMAKE_CURRENT_SOURCE_DIR}/${room})
    set(files ${arg_SOURCES})
    list(FILTER files INCLUDE REGEX "^(${CMAKE_CURRENT_SOURCE_DIR}/)?${room}/")
    if(files)
      add_library(${name}-${room} OBJECT ${files})
      target_include_directories(${name}-${room} PRIVATE ${below})
      target_link_libraries(${name}-${room} PRIVATE ${arg_LIBRARIES})
      target_compile_definitions(${name}-${room} PRIVATE ${arg_DEFINITIONS})
      list(APPEND objects $<TARGET_OBJECTS:${name}-${room}>)
    endif()
  endforeach()
  set(${ret} ${objects} PARENT_SCOPE)
endfunction()
