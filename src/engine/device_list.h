/*-------------------------------------------------------------------------
 *
 * device_list.h
 *	  The text that names GPUs: "0", "2, 3", "GPU-8932f937, 1".
 *
 * A comma-separated list of ordinals and UUIDs, as nvidia-smi -L shows them and
 * CUDA_VISIBLE_DEVICES takes them; of a UUID so much that it fits one GPU only.
 * Plain C, for PostgreSQL's side and CUDA's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DEVICE_LIST_H
#define FASTED_DEVICE_LIST_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* "GPU-", 32 digits in five groups, and the end */
#define FASTED_UUID_TEXT 41

/* Ordinals are smaller than this. */
#define FASTED_MOST_DEVICES 1024

typedef struct FastedDeviceName
{
	int			ordinal;		/* or -1: the UUID names it */
	char		uuid[FASTED_UUID_TEXT];	/* its beginning, in lower case but for "GPU-" */
} FastedDeviceName;

static inline const char *
fasted_skip_spaces(const char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return text;
}

/* The end of an ordinal at text; NULL: there is none. */
static inline const char *
fasted_read_ordinal(const char *text, FastedDeviceName *name)
{
	char	   *end;
	unsigned long ordinal = strtoul(text, &end, 10);

	name->ordinal = (int) ordinal;
	return *text >= '0' && *text <= '9' && ordinal < FASTED_MOST_DEVICES ? end : NULL;
}

/* The end of a UUID, or of the beginning of one; NULL: there is none. */
static inline const char *
fasted_read_uuid(const char *text, FastedDeviceName *name)
{
	static const char form[FASTED_UUID_TEXT] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	int			n;

	name->ordinal = -1;
	for (n = 0; n < FASTED_UUID_TEXT - 1; n++)
	{
		char		c = text[n];

		if (n < 3)
			c = (char) (c & ~0x20);
		else if (c >= 'A' && c <= 'F')
			c = (char) (c | 0x20);
		if (form[n] == 'x' ? !isxdigit((unsigned char) c) : c != form[n])
			break;
		name->uuid[n] = c;
	}
	name->uuid[n] = '\0';
	return n > 4 ? text + n : NULL;
}

/*
 * Reads one name at *text and moves *text to the next one, or to the end of the
 * list.  False: this is no name.
 */
static inline bool
fasted_next_device(const char **text, FastedDeviceName *name)
{
	const char *from = fasted_skip_spaces(*text);
	const char *end = fasted_read_ordinal(from, name);

	if (end == NULL)
		end = fasted_read_uuid(from, name);
	if (end == NULL)
		return false;
	end = fasted_skip_spaces(end);
	if (*end == ',')
	{
		end = fasted_skip_spaces(end + 1);
		if (*end == '\0')
			return false;		/* a name should follow */
	}
	else if (*end != '\0')
		return false;
	*text = end;
	return true;
}

/* Does the list name nothing, so that every device will do? */
static inline bool
fasted_any_device(const char *text)
{
	return text == NULL || *fasted_skip_spaces(text) == '\0';
}

/* Is this a list?  If not, *wrong is where it goes wrong. */
static inline bool
fasted_is_device_list(const char *text, const char **wrong)
{
	FastedDeviceName name;

	if (fasted_any_device(text))
		return true;
	while (*text != '\0')
	{
		*wrong = fasted_skip_spaces(text);
		if (!fasted_next_device(&text, &name))
			return false;
	}
	return true;
}

/* Is the device with this ordinal and UUID (all of its text) named so? */
static inline bool
fasted_is_device(const FastedDeviceName *name, int ordinal, const char *uuid)
{
	if (name->ordinal >= 0)
		return name->ordinal == ordinal;
	return strncmp(name->uuid, uuid, strlen(name->uuid)) == 0;
}

#endif							/* FASTED_DEVICE_LIST_H */
