/*-------------------------------------------------------------------------
 *
 * links.c
 *	  libpq, without blocking: connect, send, wait, report.
 *
 * A library of its own, fasted_libpq, as PostgreSQL's walreceiver has one: libpq brings
 * some twenty libraries along, which sessions without a cluster need not load.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "citus/links.h"
#include "fmgr.h"
#include "libpq-fe.h"
#include "base/compat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

/* How long we wait without a look at our own client. */
#define WAIT_MS 100

/* Parameters of a connection, at most. */
#define MOST_PARAMETERS 64

typedef struct Link
{
	char	   *name;
	PGconn	   *conn;			/* NULL: closed */
	bool		external;		/* a descriptor is reserved for it */
	uint32		events;			/* of its socket, that it waits for */
	bool		done;			/* nothing further comes */
	bool		copying;		/* data of a COPY come */
	char	   *piece;			/* of these, the one that was given last */
} Link;

struct LinkSet
{
	MemoryContext context;
	MemoryContextCallback callback;
	PGresult   *result;			/* the row that was given last */
	int			turn;			/* the link that is asked first */
	int			count;
	Link		links[FLEXIBLE_ARRAY_MEMBER];
};

static void (*check_interrupts) (void);

/* --- the end */

static void
CloseLink(Link *link)
{
	PQfreemem(link->piece);
	link->piece = NULL;
	if (link->conn != NULL)
		PQfinish(link->conn);
	link->conn = NULL;
	if (link->external)
		ReleaseExternalFD();
	link->external = false;
}

static void
CloseAll(void *arg)
{
	LinkSet    *links = arg;

	PQclear(links->result);
	links->result = NULL;
	for (int i = 0; i < links->count; i++)
		CloseLink(&links->links[i]);
}

static void
LinksClose(LinkSet *links)
{
	MemoryContextDelete(links->context);
}

static const char *
LinkName(const LinkSet *links, int n)
{
	return links->links[n].name;
}

/* --- errors */

/* Without the line feed that libpq ends its texts with. */
static char *
TrimmedText(const char *text)
{
	char	   *copy = pstrdup(text != NULL ? text : "");
	size_t		length = strlen(copy);

	while (length > 0 && (copy[length - 1] == '\n' || copy[length - 1] == ' '))
		copy[--length] = '\0';
	return copy;
}

pg_noreturn static void
ReportBrokenLink(const Link *link)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("lost the connection to Citus worker %s", link->name),
			 errdetail_internal("%s", TrimmedText(PQerrorMessage(link->conn)))));
}

/* A field of an error's, in the current memory context; or NULL. */
static char *
ErrorField(const PGresult *result, int field)
{
	const char *text = PQresultErrorField(result, field);

	return text != NULL ? pstrdup(text) : NULL;
}

/* The server's own error; frees the result. */
pg_noreturn static void
ReportRemoteError(const Link *link, PGresult *result)
{
	char	   *state = ErrorField(result, PG_DIAG_SQLSTATE);
	char	   *primary = ErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	char	   *detail = ErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	char	   *hint = ErrorField(result, PG_DIAG_MESSAGE_HINT);

	PQclear(result);
	if (state == NULL || primary == NULL)
		ReportBrokenLink(link);
	ereport(ERROR,
			(errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
			 errmsg_internal("%s", primary),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 hint != NULL ? errhint("%s", hint) : 0,
			 errcontext("Citus worker %s", link->name)));
}

/* A warning there is one here; libpq would write it, and every notice, to the log. */
static void
TakeNotice(void *arg, const PGresult *result)
{
	const Link *link = arg;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (severity == NULL || primary == NULL || strcmp(severity, "WARNING") != 0)
		return;
	ereport(WARNING,
			(errmsg_internal("%s", primary),
			 errcontext("Citus worker %s", link->name)));
}

/* --- waiting */

/* Until there is more of a result that is on its way, or a moment has passed. */
static void
Wait(const LinkSet *links)
{
	WaitEventSet *set = FASTED_WAIT_EVENT_SET(links->count + 2);
	WaitEvent	event;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < links->count; i++)
	{
		const Link *link = &links->links[i];

		/* one that has a result has no need to be waited for */
		if (PQisBusy(link->conn))
			AddWaitEventToSet(set, link->events, PQsocket(link->conn), NULL, NULL);
	}
	(void) WaitEventSetWait(set, WAIT_MS, &event, 1, PG_WAIT_EXTENSION);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
	check_interrupts();
}

/* What the link waits for: input, and room for what it still has to send. */
static void
Flush(Link *link)
{
	int			left = PQflush(link->conn);

	if (left < 0)
		ReportBrokenLink(link);
	link->events = left > 0 ? WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
}

/* Is a result there, or the end of them? */
static bool
HasResult(Link *link)
{
	Flush(link);
	if (PQconsumeInput(link->conn) == 0)
		ReportBrokenLink(link);
	return PQisBusy(link->conn) == 0;
}

/* --- connecting */

typedef struct Parameters
{
	int			count;
	const char *keywords[MOST_PARAMETERS + 1];
	const char *values[MOST_PARAMETERS + 1];
} Parameters;

/* What is added later wins. */
static void
AddParameter(Parameters *parameters, const char *keyword, const char *value)
{
	if (parameters->count == MOST_PARAMETERS)
		elog(ERROR, "too many parameters of a connection");
	parameters->keywords[parameters->count] = keyword;
	parameters->values[parameters->count++] = value;
	parameters->keywords[parameters->count] = NULL;
}

/* Those of a connection string of Citus's. */
static void
AddString(Parameters *parameters, const char *conninfo, const char *what)
{
	PQconninfoOption *options;
	char	   *problem = NULL;

	if (conninfo == NULL || conninfo[0] == '\0')
		return;
	options = PQconninfoParse(conninfo, &problem);
	if (options == NULL)
	{
		char	   *text = TrimmedText(problem);

		PQfreemem(problem);
		/* the string itself may have a password */
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid connection string in %s", what),
				 errdetail_internal("%s", text)));
	}
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
		if (option->val != NULL && option->val[0] != '\0')
			AddParameter(parameters, pstrdup(option->keyword), pstrdup(option->val));
	PQconninfoFree(options);
}

static bool
HasParameter(const Parameters *parameters, const char *keyword)
{
	for (int i = 0; i < parameters->count; i++)
		if (strcmp(parameters->keywords[i], keyword) == 0)
			return true;
	return false;
}

/*
 * As Citus itself connects: its parameters for all nodes, where the node is, where a
 * pooler for it is, and how the current user is authenticated there.  A machine that is
 * gone is noticed within half a minute.
 */
static Parameters
ParametersOf(const WorkerNode *node)
{
	Parameters	parameters = {0};

	AddParameter(&parameters, "keepalives_idle", "10");
	AddParameter(&parameters, "keepalives_interval", "5");
	AddParameter(&parameters, "keepalives_count", "3");
	AddString(&parameters, GetConfigOption("citus.node_conninfo", true, false), "citus.node_conninfo");
	AddParameter(&parameters, HasParameter(&parameters, "host") ? "hostaddr" : "host", node->host);
	AddParameter(&parameters, "port", psprintf("%d", node->port));
	AddParameter(&parameters, "dbname", get_database_name(MyDatabaseId));
	AddParameter(&parameters, "user", GetUserNameFromId(GetUserId(), false));
	AddParameter(&parameters, "client_encoding", GetDatabaseEncodingName());
	AddParameter(&parameters, "application_name", "fasted");
	AddString(&parameters, node->pool, "pg_dist_poolinfo");
	AddString(&parameters, node->auth, "pg_dist_authinfo");
	return parameters;
}

pg_noreturn static void
ReportUnreachable(const Link *link, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to Citus worker %s", link->name),
			 errdetail_internal("%s", detail),
			 errhint("Use \"SET fasted.distribute = off\" to join without the workers.")));
}

static void
StartLink(Link *link, const WorkerNode *node)
{
	Parameters	parameters = ParametersOf(node);

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to Citus worker %s", link->name),
				 errdetail("There are too many open files in this process."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));
	link->external = true;
	link->conn = PQconnectStartParams(parameters.keywords, parameters.values, 0);
	if (link->conn == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	if (PQstatus(link->conn) == CONNECTION_BAD)
		ReportUnreachable(link, TrimmedText(PQerrorMessage(link->conn)));
	PQsetNoticeReceiver(link->conn, TakeNotice, link);
	link->events = WL_SOCKET_WRITEABLE;
}

/* One step; true: it is connected. */
static bool
GoOnConnecting(Link *link)
{
	switch (PQconnectPoll(link->conn))
	{
		case PGRES_POLLING_OK:
			if (PQsetnonblocking(link->conn, 1) != 0)
				ReportBrokenLink(link);
			link->events = WL_SOCKET_READABLE;
			return true;
		case PGRES_POLLING_READING:
			link->events = WL_SOCKET_READABLE;
			return false;
		case PGRES_POLLING_WRITING:
			link->events = WL_SOCKET_WRITEABLE;
			return false;
		default:
			ReportUnreachable(link, TrimmedText(PQerrorMessage(link->conn)));
	}
}

/* Citus's own limit, in milliseconds. */
static double
ConnectionTimeout(void)
{
	const char *setting = GetConfigOption("citus.node_connection_timeout", true, false);

	return setting != NULL && atoi(setting) > 0 ? atoi(setting) : 30000;
}

/*
 * PQconnectPoll must be called only when its socket is ready, so this waits for each
 * link in turn; all of them are on their way meanwhile.
 */
static void
Connect(LinkSet *links, Link *link, instr_time begin)
{
	double		limit = ConnectionTimeout();

	for (;;)
	{
		instr_time	now;
		int			ready;

		ready = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT | link->events,
								  PQsocket(link->conn), WAIT_MS, PG_WAIT_EXTENSION);
		if (ready & WL_LATCH_SET)
			ResetLatch(MyLatch);
		check_interrupts();
		if ((ready & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE)) && GoOnConnecting(link))
			return;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, begin);
		if (INSTR_TIME_GET_MILLISEC(now) > limit)
			ReportUnreachable(link, "It did not answer in time (citus.node_connection_timeout).");
	}
}

static LinkSet *
LinksOpen(List *nodes)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted links",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LinkSet    *links = palloc0(offsetof(LinkSet, links) + list_length(nodes) * sizeof(Link));
	instr_time	begin;
	ListCell   *cell;

	links->context = context;
	links->callback.func = CloseAll;
	links->callback.arg = links;
	MemoryContextRegisterResetCallback(context, &links->callback);
	INSTR_TIME_SET_CURRENT(begin);
	foreach(cell, nodes)
	{
		const WorkerNode *node = lfirst(cell);
		Link	   *link = &links->links[links->count++];

		link->name = psprintf("%s:%d", node->host, node->port);
		StartLink(link, node);
	}
	for (int i = 0; i < links->count; i++)
		Connect(links, &links->links[i], begin);
	MemoryContextSwitchTo(old);
	return links;
}

/* --- queries */

static void
Send(Link *link, int sent)
{
	if (sent == 0)
		ReportBrokenLink(link);
	link->done = false;
	Flush(link);
}

/* Waits for the next result of one link; NULL: there is none. */
static PGresult *
AwaitResult(LinkSet *links, Link *link)
{
	PGresult   *result;

	while (!HasResult(link))
	{
		for (int i = 0; i < links->count; i++)
			(void) HasResult(&links->links[i]);
		Wait(links);
	}
	result = PQgetResult(link->conn);
	if (result != NULL && PQresultStatus(result) != PGRES_COMMAND_OK &&
		PQresultStatus(result) != PGRES_TUPLES_OK)
		ReportRemoteError(link, result);
	return result;
}

static void
LinksCommand(LinkSet *links, const char *commands)
{
	for (int i = 0; i < links->count; i++)
		Send(&links->links[i], PQsendQuery(links->links[i].conn, commands));
	for (int i = 0; i < links->count; i++)
	{
		PGresult   *result;

		while ((result = AwaitResult(links, &links->links[i])) != NULL)
			PQclear(result);
	}
}

static char *
LinkAsk(LinkSet *links, int n, const char *query)
{
	Link	   *link = &links->links[n];
	PGresult   *result;
	char	   *value = NULL;

	Send(link, PQsendQuery(link->conn, query));
	while ((result = AwaitResult(links, link)) != NULL)
	{
		if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
			value = pstrdup(PQgetvalue(result, 0, 0));
		PQclear(result);
	}
	return value;
}

static void
LinkSend(LinkSet *links, int n, const char *query)
{
	Link	   *link = &links->links[n];

	Send(link, PQsendQueryParams(link->conn, query, 0, NULL, NULL, NULL, NULL, 1));
	if (PQsetSingleRowMode(link->conn) == 0)
		elog(ERROR, "libpq has no single-row mode here");
}

/* A row of this link, if there is one by now. */
static bool
TakeRow(LinkSet *links, Link *link)
{
	while (!link->done && HasResult(link))
	{
		PGresult   *result = PQgetResult(link->conn);

		if (result == NULL)
		{
			link->done = true;
			return false;
		}
		if (PQresultStatus(result) == PGRES_SINGLE_TUPLE)
		{
			links->result = result;
			return true;
		}
		/* behind the last row comes one that says so */
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			ReportRemoteError(link, result);
		PQclear(result);
	}
	return false;
}

static bool
AllDone(const LinkSet *links)
{
	for (int i = 0; i < links->count; i++)
		if (!links->links[i].done)
			return false;
	return true;
}

/* Links take turns, so that none waits for room in its socket for long. */
static bool
LinksNext(LinkSet *links, int *n, char **value, int *length)
{
	PQclear(links->result);
	links->result = NULL;
	while (!AllDone(links))
	{
		for (int i = 0; i < links->count; i++)
		{
			*n = links->turn;
			links->turn = (links->turn + 1) % links->count;
			if (!TakeRow(links, &links->links[*n]))
				continue;
			*value = PQgetvalue(links->result, 0, 0);
			*length = PQgetlength(links->result, 0, 0);
			return true;
		}
		if (!AllDone(links))
			Wait(links);
	}
	return false;
}

/* --- COPY */

static void
LinkCopy(LinkSet *links, int n, const char *copy)
{
	Link	   *link = &links->links[n];

	Send(link, PQsendQuery(link->conn, copy));
	link->copying = false;
}

/* Until there is more of this link. */
static void
WaitForLink(Link *link)
{
	int			ready;

	Flush(link);
	ready = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT | link->events,
							  PQsocket(link->conn), WAIT_MS, PG_WAIT_EXTENSION);
	if (ready & WL_LATCH_SET)
		ResetLatch(MyLatch);
	check_interrupts();
	if (PQconsumeInput(link->conn) == 0)
		ReportBrokenLink(link);
}

/* The next result of this link, whatever comes of others; NULL: there is none. */
static PGresult *
AwaitOwnResult(Link *link)
{
	while (PQisBusy(link->conn))
		WaitForLink(link);
	return PQgetResult(link->conn);
}

static void
AwaitCopy(Link *link)
{
	PGresult   *result = AwaitOwnResult(link);

	if (result == NULL || PQresultStatus(result) != PGRES_COPY_OUT)
		ReportRemoteError(link, result);
	PQclear(result);
	link->copying = true;
}

/* Behind the last piece comes how the COPY ended. */
static void
EndCopy(Link *link)
{
	PGresult   *result;

	link->copying = false;
	link->done = true;
	while ((result = AwaitOwnResult(link)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			ReportRemoteError(link, result);
		PQclear(result);
	}
}

static bool
LinkTake(LinkSet *links, int n, char **data, int *length)
{
	Link	   *link = &links->links[n];
	bool		looked = false;

	if (!link->copying)
		AwaitCopy(link);
	PQfreemem(link->piece);
	link->piece = NULL;
	for (;;)
	{
		*length = PQgetCopyData(link->conn, &link->piece, 1);
		*data = link->piece;
		if (*length > 0)
			return true;
		if (*length < 0)
		{
			EndCopy(link);
			return false;
		}
		/* to wait costs more than to look */
		if (looked)
			WaitForLink(link);
		else if (PQconsumeInput(link->conn) == 0)
			ReportBrokenLink(link);
		looked = true;
	}
}

/* --- the library's entry */

static const LinkFunctions functions = {
	.abi = LINKS_ABI,
	.open = LinksOpen,
	.command = LinksCommand,
	.ask = LinkAsk,
	.send = LinkSend,
	.next = LinksNext,
	.copy = LinkCopy,
	.take = LinkTake,
	.name = LinkName,
	.close = LinksClose
};

PGDLLEXPORT const LinkFunctions *fasted_link_functions(void (*check) (void));

const LinkFunctions *
fasted_link_functions(void (*check) (void))
{
	check_interrupts = check;
	return &functions;
}
