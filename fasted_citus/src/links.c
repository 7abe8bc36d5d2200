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

/* Maximum number of parameters of a connection. */
#define MAX_PARAMETERS 64

typedef struct Connection
{
	char	   *name;
	PGconn	   *conn;
	bool		external;		/* a file descriptor is reserved (AcquireExternalFD) */
	uint32		events;			/* socket events to wait for */
	bool		done;			/* the query has no more results */
	bool		copying;		/* a COPY is in progress */
	char	   *piece;			/* COPY data that was returned last */
	PGresult   *result;			/* the row that was returned last, or an error */
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

/* Raises the error of the server.  The result is freed with the connection. */
pg_noreturn static void
ReportRemoteError(Connection *connection, PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	connection->result = result;
	if (state == NULL || strlen(state) != 5 || primary == NULL)
		ReportLostConnection(connection);
	ereport(ERROR,
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
	const Connection *connection = arg;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (severity == NULL || primary == NULL || strcmp(severity, "WARNING") != 0)
		return;
	ereport(WARNING,
			(errmsg_internal("%s", primary),
			 errcontext("Citus worker \"%s\"", connection->name)));
}

/* --- waiting */

/* Flushes, and sets the events to wait for: input, and output if data remain to be sent. */
static void
Flush(Connection *connection)
{
	int			left = PQflush(connection->conn);

	if (left < 0)
		ReportLostConnection(connection);
	connection->events = left > 0 ? WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
}

static void
Consume(Connection *connection)
{
	if (PQconsumeInput(connection->conn) == 0)
		ReportLostConnection(connection);
}

/*
 * Waits until one of these connections (all of a set, or a single one) can receive or send.
 * Returns false after WAIT_MS without such an event.
 */
static bool
Wait(const Connection *connections, int count)
{
	WaitEventSet *set = FASTED_WAIT_EVENT_SET(count + 2);
	WaitEvent	event = {0};

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < count; i++)
		/* with several connections, one that has a result need not be waited for */
		if (count == 1 || PQisBusy(connections[i].conn))
			AddWaitEventToSet(set, connections[i].events, PQsocket(connections[i].conn), NULL, NULL);
	(void) WaitEventSetWait(set, WAIT_MS, &event, 1, PG_WAIT_EXTENSION);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
	core->CheckJoinInterrupts();
	return (event.events & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE)) != 0;
}

/* Waits for more input of this connection, and reads it. */
static void
Receive(Connection *connection)
{
	Flush(connection);
	(void) Wait(connection, 1);
	Consume(connection);
}

/* --- connecting */

typedef struct Parameters
{
	int			count;
	const char *keywords[MAX_PARAMETERS + 1];
	const char *values[MAX_PARAMETERS + 1];
} Parameters;

/* Adds a parameter, which overrides earlier values of the same keyword. */
static void
AddParameter(Parameters *parameters, const char *keyword, const char *value)
{
	if (parameters->count == MAX_PARAMETERS)
		elog(ERROR, "too many connection parameters");
	parameters->keywords[parameters->count] = keyword;
	parameters->values[parameters->count++] = value;
}

/* Adds the parameters of a connection string.  `what` names its source in messages. */
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
ReportUnreachable(const Connection *connection, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to Citus worker \"%s\"", connection->name),
			 errdetail_internal("%s", detail),
			 errhint("Use \"SET fasted_citus.distribute = off\" to join without the workers.")));
}

static void
StartConnection(Connection *connection, const WorkerNode *node)
{
	Parameters	parameters = ParametersOf(node);

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to Citus worker \"%s\"", connection->name),
				 errdetail("There are too many open files in this process."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));
	connection->external = true;
	connection->conn = PQconnectStartParams(parameters.keywords, parameters.values, 0);
	if (PQstatus(connection->conn) == CONNECTION_BAD)
		ReportUnreachable(connection, pchomp(PQerrorMessage(connection->conn)));
	PQsetNoticeReceiver(connection->conn, TakeNotice, connection);
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
		connection->events = status == PGRES_POLLING_WRITING ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
		if (Wait(connection, 1))
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
	const char *timeout = GetConfigOption("citus.node_connection_timeout", true, false);
	int			limit = timeout != NULL && atoi(timeout) > 0 ? atoi(timeout) : 30000;
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

		connection->name = psprintf("%s:%d", node->host, node->port);
		StartConnection(connection, node);
	}
	for (int i = 0; i < set->count; i++)
		Connect(&set->connections[i], deadline);
	MemoryContextSwitchTo(old);
	return set;
}

/* --- queries */

/* Checks that a query was sent (libpq's result), and flushes it. */
static void
Send(Connection *connection, int sent)
{
	if (sent == 0)
		ReportLostConnection(connection);
	connection->done = false;
	Flush(connection);
}

/* Waits for the next result of this connection only.  Returns NULL if there are no more results. */
static PGresult *
AwaitResult(Connection *connection)
{
	while (PQisBusy(connection->conn))
		Receive(connection);
	return PQgetResult(connection->conn);
}

/* Takes the remaining results; returns the first value of the last one that has rows, or NULL. */
static char *
FinishQuery(Connection *connection)
{
	char	   *value = NULL;
	PGresult   *result;

	while ((result = AwaitResult(connection)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
			ReportRemoteError(connection, result);
		if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
			value = pstrdup(PQgetvalue(result, 0, 0));
		PQclear(result);
	}
	return value;
}

char **
LinksCommand(ConnectionSet *set, const char *commands)
{
	char	  **values = palloc(set->count * sizeof(char *));

	for (int i = 0; i < set->count; i++)
		Send(&set->connections[i], PQsendQuery(set->connections[i].conn, commands));
	for (int i = 0; i < set->count; i++)
		values[i] = FinishQuery(&set->connections[i]);
	return values;
}

void
LinksSend(ConnectionSet *set, int n, const char *query)
{
	Connection *connection = &set->connections[n];

	Send(connection, PQsendQueryParams(connection->conn, query, 0, NULL, NULL, NULL, NULL, 1));
	(void) PQsetSingleRowMode(connection->conn);
}

/* Takes the next row of this connection, without waiting.  Returns false if there is none yet. */
static bool
TakeRow(Connection *connection)
{
	PQclear(connection->result);
	connection->result = NULL;
	while (!connection->done)
	{
		PGresult   *result;

		Flush(connection);
		Consume(connection);
		if (PQisBusy(connection->conn))
			return false;
		result = PQgetResult(connection->conn);
		if (PQresultStatus(result) == PGRES_SINGLE_TUPLE)
		{
			connection->result = result;
			return true;
		}
		connection->done = result == NULL;
		/* an empty result follows the last row */
		if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK)
			ReportRemoteError(connection, result);
		PQclear(result);
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
		(void) Wait(set->connections, set->count);
	}
}

/* --- COPY */

bool
LinksTake(ConnectionSet *set, int n, char **data, int *length)
{
	Connection *connection = &set->connections[n];
	bool		looked = false;

	if (!connection->copying)
	{
		PGresult   *result = AwaitResult(connection);

		if (PQresultStatus(result) != PGRES_COPY_OUT)
			ReportRemoteError(connection, result);
		PQclear(result);
		connection->copying = true;
	}
	PQfreemem(connection->piece);
	connection->piece = NULL;
	for (;;)
	{
		*length = PQgetCopyData(connection->conn, &connection->piece, 1);
		*data = connection->piece;
		if (*length > 0)
			return true;
		if (*length < 0)
		{
			connection->copying = false;
			(void) FinishQuery(connection);	/* the COPY may have failed */
			return false;
		}
		/* waiting costs more than reading the socket, so read first */
		if (looked)
			Receive(connection);
		else
			Consume(connection);
		looked = true;
	}
}
