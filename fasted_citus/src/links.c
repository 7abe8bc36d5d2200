/*-------------------------------------------------------------------------
 *
 * links.c
 *	  Nonblocking connections with libpq: connect, send, wait, report errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "commands/dbcommands.h"
#include "fasted_citus.h"
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

/* The longest wait without a check for interrupts and for our own client. */
#define WAIT_MS 100

typedef struct Connection
{
	char	   *name;
	PGconn	   *conn;
	bool		external;		/* a file descriptor is reserved (AcquireExternalFD) */
	bool		done;			/* the query has no more results */
	char	   *piece;			/* COPY data that was returned last; NULL: COPY has not begun */
	PGresult   *result;			/* the last result, which may be an error */
} Connection;

struct ConnectionSet
{
	MemoryContext context;
	MemoryContextCallback callback;
	int			turn;			/* the connection to check first */
	int			count;
	Connection	connections[FLEXIBLE_ARRAY_MEMBER];
};

/* --- closing */

static void
CloseAll(void *arg)
{
	ConnectionSet *set = arg;

	for (int i = 0; i < set->count; i++)
	{
		Connection *connection = &set->connections[i];

		PQclear(connection->result);
		PQfreemem(connection->piece);
		PQfinish(connection->conn);
		if (connection->external)
			ReleaseExternalFD();
	}
}

void
LinksClose(ConnectionSet *set)
{
	MemoryContextDelete(set->context);
}

const char *
LinksName(const ConnectionSet *set, int n)
{
	return set->connections[n].name;
}

/* --- errors */

pg_noreturn static void
ReportLostConnection(const Connection *connection)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("lost connection to Citus worker \"%s\"", connection->name),
			 errdetail_internal("%s", pchomp(PQerrorMessage(connection->conn)))));
}

void
LinksReportInvalid(const ConnectionSet *set, int n)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("invalid message from Citus worker \"%s\"", LinksName(set, n))));
}

/* Raises an error or warning of the server here, if the result is one. */
static void
Raise(int elevel, const Connection *connection, const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (state == NULL || strlen(state) != 5 || primary == NULL)
		return;
	ereport(elevel,
			(errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
			 errmsg_internal("%s", primary),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 hint != NULL ? errhint("%s", hint) : 0,
			 errcontext("Citus worker \"%s\"", connection->name)));
}

/* PQnoticeReceiver: repeats a server's WARNING here.  By default libpq writes all to the log. */
static void
TakeNotice(void *arg, const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

	if (severity != NULL && strcmp(severity, "WARNING") == 0)
		Raise(WARNING, arg, result);
}

/* --- waiting */

static void
Consume(Connection *connection)
{
	if (PQconsumeInput(connection->conn) == 0)
		ReportLostConnection(connection);
}

/*
 * Waits until one of these connections (all of a set, or a single one) has one of these socket events,
 * or can send data that remain to be sent.  Returns false after WAIT_MS without such an event.
 */
static bool
Wait(const Connection *connections, int count, uint32 events)
{
	WaitEventSet *set = FASTED_WAIT_EVENT_SET(count + 2);
	WaitEvent	event = {0};

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < count; i++)
		/* with several connections, one that has a result need not be waited for */
		if (count == 1 || PQisBusy(connections[i].conn))
			AddWaitEventToSet(set, events | (PQflush(connections[i].conn) > 0 ? WL_SOCKET_WRITEABLE : 0),
							  PQsocket(connections[i].conn), NULL, NULL);
	(void) WaitEventSetWait(set, WAIT_MS, &event, 1, PG_WAIT_EXTENSION);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
	core->CheckJoinInterrupts();
	return (event.events & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE)) != 0;
}

/* --- connecting */

/* Adds a parameter, which overrides earlier values of the same keyword. */
static void
AddParameter(StringInfo conninfo, const char *keyword, const char *value)
{
	appendStringInfo(conninfo, " %s='", keyword);
	for (; *value != '\0'; value++)
	{
		if (*value == '\'' || *value == '\\')
			appendStringInfoChar(conninfo, '\\');
		appendStringInfoChar(conninfo, *value);
	}
	appendStringInfoChar(conninfo, '\'');
}

/*
 * Adds those parameters of a connection string that have a value.  Returns true if a host is among them.
 * source: where the string is from.
 */
static bool
AddString(StringInfo conninfo, const char *string, const char *source)
{
	PQconninfoOption *options = PQconninfoParse(string, NULL);
	bool		has_host = false;

	/* do not show the string, or what libpq says about it, since it may have a password */
	if (options == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid connection string in %s", source)));
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
		if (option->val != NULL && option->val[0] != '\0')
		{
			AddParameter(conninfo, option->keyword, option->val);
			has_host = has_host || strcmp(option->keyword, "host") == 0;
		}
	PQconninfoFree(options);
	return has_host;
}

/*
 * Returns the connection string with which Citus would connect.  It has Citus's parameters for all
 * nodes, and the node's address, connection pooler and authentication of the current user.  Only
 * superusers may set these strings, and Citus restricts their parameters.  Keepalives detect an
 * unreachable server within half a minute.
 */
static char *
ConnectionString(const WorkerNode *node)
{
	StringInfoData conninfo;
	bool		has_host;

	initStringInfo(&conninfo);
	appendStringInfoString(&conninfo, "keepalives_idle=10 keepalives_interval=5 keepalives_count=3");
	has_host = AddString(&conninfo, GetConfigOption("citus.node_conninfo", false, false), "citus.node_conninfo");
	AddParameter(&conninfo, has_host ? "hostaddr" : "host", node->host);
	AddParameter(&conninfo, "port", node->port);
	AddParameter(&conninfo, "dbname", get_database_name(MyDatabaseId));
	AddParameter(&conninfo, "user", GetUserNameFromId(GetUserId(), false));
	AddParameter(&conninfo, "client_encoding", GetDatabaseEncodingName());
	AddParameter(&conninfo, "application_name", "fasted");
	(void) AddString(&conninfo, node->pool, "pg_dist_poolinfo");
	(void) AddString(&conninfo, node->auth, "pg_dist_authinfo");
	return conninfo.data;
}

pg_noreturn static void
ReportUnreachable(const Connection *connection, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to Citus worker \"%s\"", connection->name),
			 errdetail_internal("%s", detail),
			 errhint("Use \"SET fasted_citus.distribute = off\" to join without the workers.")));
}

/*
 * Completes a connection.  PQconnectPoll must be called only when the socket is ready, so the
 * connections of a set are completed in turn; all of them were started before.
 */
static void
Connect(Connection *connection, TimestampTz deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (status != PGRES_POLLING_OK)
	{
		if (Wait(connection, 1, status == PGRES_POLLING_WRITING ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE))
			status = PQconnectPoll(connection->conn);
		if (status == PGRES_POLLING_FAILED)
			ReportUnreachable(connection, pchomp(PQerrorMessage(connection->conn)));
		if (status != PGRES_POLLING_OK && GetCurrentTimestamp() > deadline)
			ReportUnreachable(connection, "The worker did not answer within citus.node_connection_timeout.");
	}
	if (PQsetnonblocking(connection->conn, 1) != 0)
		ReportLostConnection(connection);
}

ConnectionSet *
LinksOpen(List *nodes)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted connections",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ConnectionSet *set = palloc0(offsetof(ConnectionSet, connections) +
								 list_length(nodes) * sizeof(Connection));
	int			limit = atoi(GetConfigOption("citus.node_connection_timeout", false, false));
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), limit);
	ListCell   *cell;

	set->context = context;
	set->callback.func = CloseAll;
	set->callback.arg = set;
	MemoryContextRegisterResetCallback(context, &set->callback);
	foreach(cell, nodes)
	{
		const WorkerNode *node = lfirst(cell);
		Connection *connection = &set->connections[set->count++];

		connection->name = psprintf("%s:%s", node->host, node->port);
		if (!AcquireExternalFD())
			ReportUnreachable(connection, "There are too many open files in this process: see max_files_per_process.");
		connection->external = true;
		connection->conn = PQconnectStart(ConnectionString(node));
		if (PQstatus(connection->conn) == CONNECTION_BAD)
			ReportUnreachable(connection, pchomp(PQerrorMessage(connection->conn)));
		PQsetNoticeReceiver(connection->conn, TakeNotice, connection);
	}
	for (int i = 0; i < set->count; i++)
		Connect(&set->connections[i], deadline);
	MemoryContextSwitchTo(old);
	return set;
}

/* --- queries */

/*
 * Takes the next result of a connection that is not busy.  Returns false if there are no more results.
 * Errors: that of the server; the result is neither of this status nor the end of a command.
 */
static bool
TakeResult(Connection *connection, ExecStatusType expected)
{
	ExecStatusType status;

	PQclear(connection->result);
	connection->result = PQgetResult(connection->conn);
	status = PQresultStatus(connection->result);
	if (connection->result == NULL || status == expected || status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		return connection->result != NULL;
	Raise(ERROR, connection, connection->result);
	ReportLostConnection(connection);
}

/* Waits for the next result of this connection only; see TakeResult. */
static bool
AwaitResult(Connection *connection, ExecStatusType expected)
{
	while (PQisBusy(connection->conn))
	{
		(void) Wait(connection, 1, WL_SOCKET_READABLE);
		Consume(connection);
	}
	return TakeResult(connection, expected);
}

/* Takes the remaining results; returns the first value of the last one that has rows, or NULL. */
static char *
FinishQuery(Connection *connection)
{
	char	   *value = NULL;

	while (AwaitResult(connection, PGRES_TUPLES_OK))
		if (PQntuples(connection->result) > 0 && !PQgetisnull(connection->result, 0, 0))
			value = pstrdup(PQgetvalue(connection->result, 0, 0));
	return value;
}

char **
LinksCommand(ConnectionSet *set, const char *commands)
{
	char	  **values = palloc(set->count * sizeof(char *));

	for (int i = 0; i < set->count; i++)
		if (PQsendQuery(set->connections[i].conn, commands) == 0)
			ReportLostConnection(&set->connections[i]);
	for (int i = 0; i < set->count; i++)
		values[i] = FinishQuery(&set->connections[i]);
	return values;
}

void
LinksSend(ConnectionSet *set, int n, const char *query)
{
	Connection *connection = &set->connections[n];

	if (PQsendQueryParams(connection->conn, query, 0, NULL, NULL, NULL, NULL, 1) == 0)
		ReportLostConnection(connection);
	connection->done = false;
	(void) PQsetSingleRowMode(connection->conn);
}

/* Takes the next row of this connection, without waiting.  Returns false if there is none yet. */
static bool
TakeRow(Connection *connection)
{
	while (!connection->done)
	{
		Consume(connection);
		if (PQisBusy(connection->conn))
			return false;
		connection->done = !TakeResult(connection, PGRES_SINGLE_TUPLE);
		/* an empty result follows the last row */
		if (PQntuples(connection->result) > 0)
			return true;
	}
	return false;
}

/* Connections take turns, so that no server is blocked by a full socket for long. */
bool
LinksNext(ConnectionSet *set, int *n, char **value, int *length)
{
	for (;;)
	{
		bool		over = true;

		for (int i = 0; i < set->count; i++)
		{
			Connection *connection = &set->connections[set->turn];

			*n = set->turn;
			set->turn = (set->turn + 1) % set->count;
			if (TakeRow(connection))
			{
				*value = PQgetvalue(connection->result, 0, 0);
				*length = PQgetlength(connection->result, 0, 0);
				return true;
			}
			over = over && connection->done;
		}
		if (over)
			return false;
		(void) Wait(set->connections, set->count, WL_SOCKET_READABLE);
	}
}

/* --- COPY */

bool
LinksTake(ConnectionSet *set, int n, char **data, int *length)
{
	Connection *connection = &set->connections[n];
	bool		looked = false;

	if (connection->piece == NULL &&
		(!AwaitResult(connection, PGRES_COPY_OUT) || PQresultStatus(connection->result) != PGRES_COPY_OUT))
		ReportLostConnection(connection);
	PQfreemem(connection->piece);
	connection->piece = NULL;
	while ((*length = PQgetCopyData(connection->conn, &connection->piece, 1)) == 0)
	{
		/* waiting costs more than reading the socket, so read first */
		if (looked)
			(void) Wait(connection, 1, WL_SOCKET_READABLE);
		Consume(connection);
		looked = true;
	}
	*data = connection->piece;
	if (*length < 0)
		(void) FinishQuery(connection); /* the COPY may have failed */
	return *length > 0;
}
