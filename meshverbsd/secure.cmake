# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What protects datagrams between agents, apart from the agent so that its tests and fuzzers need nothing else.
# The only part that links libsodium.
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
set(MESHVERBS_SECURE_SOURCES ident/identity.c ident/statement.c
  secure/gid_arbitration.c secure/peer_keys.c secure/secure.c secure/secure_cookie.c secure/secure_copies.c secure/secure_key.c secure/secure_limit.c secure/secure_open.c
  secure/secure_table.c secure/secure_text.c secure/secure_window.c secure/start.c)
list(TRANSFORM MESHVERBS_SECURE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
add_library(md_secure STATIC ${MESHVERBS_SECURE_SOURCES})
target_include_directories(md_secure PUBLIC ${CMAKE_CURRENT_LIST_DIR}/util ${CMAKE_CURRENT_LIST_DIR}/ident
  ${CMAKE_CURRENT_LIST_DIR}/secure)
target_link_libraries(md_secure PUBLIC meshverbs PkgConfig::SODIUM)
