# The connections to other servers are a separate library, since it needs libpq.

LIBPQ_LIBRARY = fasted_libpq$(DLSUFFIX)
LIBPQ_OBJS = src/citus/libpq/links.o

.PHONY: install-libpq uninstall-libpq clean-libpq

all: $(LIBPQ_LIBRARY)

$(LIBPQ_OBJS): CPPFLAGS += -I$(libpq_srcdir)
$(LIBPQ_OBJS): $(wildcard src/*/*.h)

$(LIBPQ_LIBRARY): $(LIBPQ_OBJS)
	$(CC) $(CFLAGS) $(CFLAGS_SL) -shared -o $@ $^ $(LDFLAGS) $(LDFLAGS_SL) $(libpq)

install: install-libpq
install-libpq: $(LIBPQ_LIBRARY) installdirs
	$(INSTALL_SHLIB) $(LIBPQ_LIBRARY) '$(DESTDIR)$(pkglibdir)/$(LIBPQ_LIBRARY)'

uninstall: uninstall-libpq
uninstall-libpq:
	rm -f '$(DESTDIR)$(pkglibdir)/$(LIBPQ_LIBRARY)'

clean: clean-libpq
clean-libpq:
	rm -f $(LIBPQ_LIBRARY) $(LIBPQ_OBJS)
