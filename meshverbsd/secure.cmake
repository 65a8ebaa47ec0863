# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What protects datagrams between agents, apart from the agent so that its tests and fuzzers need nothing else.
# The only part that links libsodium.
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
set(MESHVERBS_SECURE_SOURCES claims.c ident/identity.c ident/peer_keys.c ident/statement.c secure.c secure_cookie.c secure_key.c secure_limit.c secure_open.c secure_table.c secure_text.c
  secure_window.c start.c)
list(TRANSFORM MESHVERBS_SECURE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
add_library(md_secure STATIC ${MESHVERBS_SECURE_SOURCES})
target_include_directories(md_secure PUBLIC ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/ident)
target_link_libraries(md_secure PUBLIC meshverbs PkgConfig::SODIUM)
