/*-------------------------------------------------------------------------
 *
 * links.c
 *	  Nonblocking connections with libpq: connect, send, wait, report errors.
 *
 * This is a separate library, fasted_libpq, as PostgreSQL has libpqwalreceiver: libpq depends on
 * some twenty libraries, which sessions without a cluster need not load.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "citus/links.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "libpq-fe.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

/* The longest wait without a check for interrupts and for our own client. */
#define WAIT_MS 100

/* Maximum number of parameters of a connection. */
#define MOST_PARAMETERS 64

typedef struct Link
{
	char	   *name;
	PGconn	   *conn;
	bool		external;		/* a file descriptor is reserved (AcquireExternalFD) */
	uint32		events;			/* socket events to wait for */
	bool		done;			/* the query has no more results */
	bool		copying;		/* a COPY is in progress */
	char	   *piece;			/* COPY data that was returned last */
	PGresult   *result;			/* the row that was returned last, or an error */
} Link;

struct LinkSet
{
	MemoryContext context;
	MemoryContextCallback callback;
	int			turn;			/* the link to check first */
	int			count;
	Link		links[FLEXIBLE_ARRAY_MEMBER];
};

static void (*check_interrupts) (void);

/* --- closing */

static void
CloseAll(void *arg)
{
	LinkSet    *links = arg;

	for (int i = 0; i < links->count; i++)
	{
		Link	   *link = &links->links[i];

		PQclear(link->result);
		PQfreemem(link->piece);
		PQfinish(link->conn);
		if (link->external)
			ReleaseExternalFD();
	}
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

pg_noreturn static void
ReportBrokenLink(const Link *link)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("lost connection to Citus worker \"%s\"", link->name),
			 errdetail_internal("%s", pchomp(PQerrorMessage(link->conn)))));
}

/* Raises the error of the server.  The result is freed with the link. */
pg_noreturn static void
ReportRemoteError(Link *link, PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	link->result = result;
	if (state == NULL || primary == NULL)
		ReportBrokenLink(link);
	ereport(ERROR,
			(errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
			 errmsg_internal("%s", primary),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 hint != NULL ? errhint("%s", hint) : 0,
			 errcontext("Citus worker %s", link->name)));
}

/* PQnoticeReceiver: repeats a server's WARNING here.  By default libpq writes all to the log. */
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

/* Flushes, and sets the events to wait for: input, and output if data remain to be sent. */
static void
Flush(Link *link)
{
	int			left = PQflush(link->conn);

	if (left < 0)
		ReportBrokenLink(link);
	link->events = left > 0 ? WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
}

static void
Consume(Link *link)
{
	if (PQconsumeInput(link->conn) == 0)
		ReportBrokenLink(link);
}

/*
 * Waits until one of these links (all links of a set, or a single one) can receive or send.
 * Returns false after WAIT_MS without such an event.
 */
static bool
Wait(const Link *links, int count)
{
	WaitEventSet *set = FASTED_WAIT_EVENT_SET(count + 2);
	WaitEvent	event = {0};

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < count; i++)
		/* with several links, one that has a result need not be waited for */
		if (count == 1 || PQisBusy(links[i].conn))
			AddWaitEventToSet(set, links[i].events, PQsocket(links[i].conn), NULL, NULL);
	(void) WaitEventSetWait(set, WAIT_MS, &event, 1, PG_WAIT_EXTENSION);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
	check_interrupts();
	return (event.events & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE)) != 0;
}

/* Waits for more input of this link, and reads it. */
static void
Receive(Link *link)
{
	Flush(link);
	(void) Wait(link, 1);
	Consume(link);
}

/* --- connecting */

typedef struct Parameters
{
	int			count;
	const char *keywords[MOST_PARAMETERS + 1];
	const char *values[MOST_PARAMETERS + 1];
} Parameters;

/* Adds a parameter, which overrides earlier values of the same keyword. */
static void
AddParameter(Parameters *parameters, const char *keyword, const char *value)
{
	if (parameters->count == MOST_PARAMETERS)
		elog(ERROR, "too many connection parameters");
	parameters->keywords[parameters->count] = keyword;
	parameters->values[parameters->count++] = value;
}

/* Adds the parameters of a connection string; what: where Citus has it, for messages. */
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
		char	   *text = problem != NULL ? pchomp(problem) : pstrdup("out of memory");

		PQfreemem(problem);
		/* do not show the string, which may have a password */
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

/*
 * Returns the parameters with which Citus would connect.  These are its parameters for all nodes,
 * and the node's address, connection pooler and authentication of the current user.  Keepalives
 * detect an unreachable server within half a minute.
 */
static Parameters
ParametersOf(const WorkerNode *node)
{
	Parameters	parameters = {0};
	const char *host = "host";

	AddParameter(&parameters, "keepalives_idle", "10");
	AddParameter(&parameters, "keepalives_interval", "5");
	AddParameter(&parameters, "keepalives_count", "3");
	AddString(&parameters, GetConfigOption("citus.node_conninfo", true, false), "citus.node_conninfo");
	for (int i = 0; i < parameters.count; i++)
		if (strcmp(parameters.keywords[i], "host") == 0)
			host = "hostaddr";
	AddParameter(&parameters, host, node->host);
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
			 errmsg("could not connect to Citus worker \"%s\"", link->name),
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
				 errmsg("could not connect to Citus worker \"%s\"", link->name),
				 errdetail("There are too many open files in this process."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));
	link->external = true;
	link->conn = PQconnectStartParams(parameters.keywords, parameters.values, 0);
	if (PQstatus(link->conn) == CONNECTION_BAD)
		ReportUnreachable(link, pchomp(PQerrorMessage(link->conn)));
	PQsetNoticeReceiver(link->conn, TakeNotice, link);
}

/*
 * Completes the connection of a link.  PQconnectPoll must be called only when the socket is ready,
 * so links are completed in turn; all connections were started before.
 */
static void
Connect(Link *link, TimestampTz deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (status != PGRES_POLLING_OK)
	{
		link->events = status == PGRES_POLLING_WRITING ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
		if (Wait(link, 1))
			status = PQconnectPoll(link->conn);
		if (status == PGRES_POLLING_FAILED)
			ReportUnreachable(link, pchomp(PQerrorMessage(link->conn)));
		if (status != PGRES_POLLING_OK && GetCurrentTimestamp() > deadline)
			ReportUnreachable(link, "It did not answer in time (citus.node_connection_timeout).");
	}
	if (PQsetnonblocking(link->conn, 1) != 0)
		ReportBrokenLink(link);
}

static LinkSet *
LinksOpen(List *nodes)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted links",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LinkSet    *links = palloc0(offsetof(LinkSet, links) + list_length(nodes) * sizeof(Link));
	const char *timeout = GetConfigOption("citus.node_connection_timeout", true, false);
	int			limit = timeout != NULL && atoi(timeout) > 0 ? atoi(timeout) : 30000;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), limit);
	ListCell   *cell;

	links->context = context;
	links->callback.func = CloseAll;
	links->callback.arg = links;
	MemoryContextRegisterResetCallback(context, &links->callback);
	foreach(cell, nodes)
	{
		const WorkerNode *node = lfirst(cell);
		Link	   *link = &links->links[links->count++];

		link->name = psprintf("%s:%d", node->host, node->port);
		StartLink(link, node);
	}
	for (int i = 0; i < links->count; i++)
		Connect(&links->links[i], deadline);
	MemoryContextSwitchTo(old);
	return links;
}

/* --- queries */

/* Checks that a query was sent (libpq's result), and flushes it. */
static void
Send(Link *link, int sent)
{
	if (sent == 0)
		ReportBrokenLink(link);
	link->done = false;
	Flush(link);
}

/* Waits for the next result of this link only.  Returns NULL if there are no more results. */
static PGresult *
AwaitResult(Link *link)
{
	while (PQisBusy(link->conn))
		Receive(link);
	return PQgetResult(link->conn);
}

/* Takes the remaining results; returns the first value of the last one that has rows, or NULL. */
static char *
FinishQuery(Link *link)
{
	char	   *value = NULL;
	PGresult   *result;

	while ((result = AwaitResult(link)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
			ReportRemoteError(link, result);
		if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
			value = pstrdup(PQgetvalue(result, 0, 0));
		PQclear(result);
	}
	return value;
}

static char **
LinksCommand(LinkSet *links, const char *commands)
{
	char	  **values = palloc(links->count * sizeof(char *));

	for (int i = 0; i < links->count; i++)
		Send(&links->links[i], PQsendQuery(links->links[i].conn, commands));
	for (int i = 0; i < links->count; i++)
		values[i] = FinishQuery(&links->links[i]);
	return values;
}

static void
LinkSend(LinkSet *links, int n, const char *query)
{
	Link	   *link = &links->links[n];

	Send(link, PQsendQueryParams(link->conn, query, 0, NULL, NULL, NULL, NULL, 1));
	(void) PQsetSingleRowMode(link->conn);
}

/* Takes the next row of this link, without waiting.  Returns false if there is none yet. */
static bool
TakeRow(Link *link)
{
	PQclear(link->result);
	link->result = NULL;
	while (!link->done)
	{
		PGresult   *result;

		Flush(link);
		Consume(link);
		if (PQisBusy(link->conn))
			return false;
		result = PQgetResult(link->conn);
		if (PQresultStatus(result) == PGRES_SINGLE_TUPLE)
		{
			link->result = result;
			return true;
		}
		link->done = result == NULL;
		/* an empty result follows the last row */
		if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK)
			ReportRemoteError(link, result);
		PQclear(result);
	}
	return false;
}

/* Links take turns, so that no server is blocked by a full socket for long. */
static bool
LinksNext(LinkSet *links, int *n, char **value, int *length)
{
	for (;;)
	{
		bool		over = true;

		for (int i = 0; i < links->count; i++)
		{
			Link	   *link = &links->links[links->turn];

			*n = links->turn;
			links->turn = (links->turn + 1) % links->count;
			if (TakeRow(link))
			{
				*value = PQgetvalue(link->result, 0, 0);
				*length = PQgetlength(link->result, 0, 0);
				return true;
			}
			over = over && link->done;
		}
		if (over)
			return false;
		(void) Wait(links->links, links->count);
	}
}

/* --- COPY */

static bool
LinkTake(LinkSet *links, int n, char **data, int *length)
{
	Link	   *link = &links->links[n];
	bool		looked = false;

	if (!link->copying)
	{
		PGresult   *result = AwaitResult(link);

		if (PQresultStatus(result) != PGRES_COPY_OUT)
			ReportRemoteError(link, result);
		PQclear(result);
		link->copying = true;
	}
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
			link->copying = false;
			(void) FinishQuery(link);	/* the COPY may have failed */
			return false;
		}
		/* waiting costs more than reading the socket, so read first */
		if (looked)
			Receive(link);
		else
			Consume(link);
		looked = true;
	}
}

/* --- the library's entry point */

static const LinkFunctions functions = {
	.abi = LINKS_ABI,
	.open = LinksOpen,
	.command = LinksCommand,
	.send = LinkSend,
	.next = LinksNext,
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
