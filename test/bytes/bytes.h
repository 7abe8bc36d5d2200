/*-------------------------------------------------------------------------
 *
 * bytes.h
 *	  Declarations that the fuzzers share: input, memory, a second decoder of vectors, failures.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BYTES_H
#define BYTES_H

#include "engine/engine.h"
#include "rows/source.h"

/* The remaining bytes of an input. */
typedef struct Input
{
	const uint8 *next;
	size_t		left;
} Input;

/* Take an unsigned number of one or two bytes; the end of the input is followed by zeros. */
extern unsigned TakeByte(Input *input);
extern unsigned TakeShort(Input *input);

/* Takes count bytes, or fewer at the end of the input.  Returns the number of bytes taken. */
extern size_t TakeBytes(Input *input, void *to, size_t count);

/*
 * Allocates memory until the end of the input, of exactly this size, so that AddressSanitizer
 * reports every access to the bytes behind it.  It has the alignment of malloc.
 */
extern void *AllocExact(size_t bytes);

/*
 * Decodes a vector that another node has sent.  The bytes are those of a varlena without its
 * length word.  Allocates *elements with a double for each element.  Returns the number of
 * elements, or 0 if fasted must reject the bytes.
 */
extern int	DecodeVector(VectorForm form, const uint8 *bytes, size_t length, double **elements);

/* Returns element k of a row that fasted has converted. */
extern double RowElement(const float *row, FastedElement element, int k);

/* Reports a wrong result of fasted's decoder, and aborts. */
pg_noreturn extern void Fail(const char *format,...) __attribute__((format(printf, 1, 2)));

/*
 * The target, one in each program.  Decode passes the input to fasted.  It is followed by Verify
 * with the SQLSTATE of the error that Decode has raised, or 0.
 */
extern void Decode(Input *input);
extern void Verify(int sqlstate);

#endif							/* BYTES_H */
