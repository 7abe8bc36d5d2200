/*-------------------------------------------------------------------------
 *
 * device_list.h
 *	  Parses lists of GPUs, such as "0", "2, 3" or "GPU-8932f937, 1".
 *
 * A device list is a comma-separated list of ordinals and UUIDs, as shown by nvidia-smi -L and
 * accepted by CUDA_VISIBLE_DEVICES.  A UUID may be abbreviated to a prefix that is unique.
 * This header is plain C, because both PostgreSQL code and CUDA code include it.
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

/* Size of a UUID text: "GPU-", 32 digits in five groups, and the final null. */
#define FASTED_UUID_TEXT 41

/* Upper limit for ordinals, exclusive. */
#define FASTED_MOST_DEVICES 1024

typedef struct FastedDeviceName
{
	int			ordinal;		/* -1 if the device is named by its UUID */
	char		uuid[FASTED_UUID_TEXT];	/* prefix of the UUID: "GPU-", then lower case */
} FastedDeviceName;

static inline const char *
fasted_skip_spaces(const char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return text;
}

/* Parses an ordinal.  Returns its end, or NULL if text does not begin with an ordinal. */
static inline const char *
fasted_read_ordinal(const char *text, FastedDeviceName *name)
{
	char	   *end;
	unsigned long ordinal = strtoul(text, &end, 10);

	name->ordinal = (int) ordinal;
	return *text >= '0' && *text <= '9' && ordinal < FASTED_MOST_DEVICES ? end : NULL;
}

/* Parses a UUID or a prefix of one.  Returns its end, or NULL if text does not begin with one. */
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
 * Parses the name at *text and advances *text to the next name, or to the end of the
 * list.  Returns false if there is no valid name.
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
			return false;		/* no name after the comma */
	}
	else if (*end != '\0')
		return false;
	*text = end;
	return true;
}

/* Returns whether the list is empty, which allows all devices. */
static inline bool
fasted_any_device(const char *text)
{
	return text == NULL || *fasted_skip_spaces(text) == '\0';
}

/* Returns whether text is a valid list.  If not, sets *wrong to the position of the error. */
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

/* Returns whether name refers to the device with this ordinal and this complete UUID. */
static inline bool
fasted_is_device(const FastedDeviceName *name, int ordinal, const char *uuid)
{
	if (name->ordinal >= 0)
		return name->ordinal == ordinal;
	return strncmp(name->uuid, uuid, strlen(name->uuid)) == 0;
}

#endif							/* FASTED_DEVICE_LIST_H */
