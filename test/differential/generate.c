/*
 * generate.c
 *	  Generates a table of random vectors, as text for COPY.
 *
 *	generate SEED DISTRIBUTION ROWS DIMENSIONS ELEMENT KEY ORDER NULLS
 *
 * ELEMENT is real, double, int or bit; an appended "[" selects pgvector's brackets.  A bit is
 * set if the number of the distribution is above 0.5.
 * KEY is int, bigint, uuid, text, longtext or timestamptz; ORDER is ascending
 * or shuffled.  NULLS rows of a thousand have no vector.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t
random64(void)
{
	uint64_t	z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static double
uniform(void)
{
	return (double) (random64() >> 11) * 0x1p-53;
}

static uint64_t
below(uint64_t n)
{
	return random64() % n;
}

static double
normal(void)
{
	return sqrt(-2.0 * log(1.0 - uniform())) * cos(6.283185307179586 * uniform());
}

#define CENTRES 7

static const char *distribution;
static int	rows;
static int	dimensions;
static double *centres;			/* CENTRES rows */

static int
is(const char *name)
{
	return strcmp(distribution, name) == 0;
}

static void
fill_row(double *row)
{
	const double *centre = centres + below(CENTRES) * dimensions;
	double		row_scale = below(2) ? 1e30 : 1e-30;
	double		norm = 0.0;

	for (int k = 0; k < dimensions; k++)
	{
		double		x;

		if (is("uniform"))
			x = uniform();
		else if (is("clustered"))
			x = centre[k] + 0.01 * normal();
		else if (is("duplicates"))
			x = centre[k];
		else if (is("near_duplicates"))
			x = centre[k] + (below(dimensions) == 0 ? 1e-6 * normal() : 0.0);
		else if (is("integers"))
			x = (double) below(5) - 2.0;
		else if (is("bytes"))
			x = (double) below(256);
		else if (is("ties"))
			x = 0.1 * (double) below(3);
		else if (is("small"))
			x = 1e-30 * normal();
		else if (is("large"))
			x = 1e30 * normal();
		else if (is("mixed_rows"))
			x = row_scale * normal();
		else if (is("mixed_elements"))
			x = (below(2) ? 1e30 : 1e-30) * normal();
		else if (is("all_magnitudes"))
			x = ldexp(normal(), (int) below(270) - 149);
		else if (is("largest"))
			x = below(3) == 0 ? 0.0 : (below(2) ? FLT_MAX : -FLT_MAX);
		else if (is("denormals"))
			x = ldexp((double) below(1 << (1 + below(24))) - (double) below(3), -149);
		else if (is("offset"))
			x = 1e4 + normal();
		else if (is("offset_tiny_noise"))
			x = 1e4 + 1e-3 * (double) below(9);
		else if (is("equal"))
			x = 0.3;
		else if (is("zeros"))
			x = below(20) ? (below(2) ? 0.0 : -0.0) : 1.0;
		else if (is("one_outlier"))
			x = normal() * (below((uint64_t) rows * 2) == 0 ? 1e20 : 1.0);
		else
			x = normal();
		row[k] = x;
		norm += x * x;
	}
	if (is("unit"))
		for (int k = 0; k < dimensions; k++)
			row[k] /= sqrt(norm);
}

static double
clamp(double x)
{
	if (x > FLT_MAX)
		return FLT_MAX;
	return x < -FLT_MAX ? -FLT_MAX : x;
}

static void
print_row(const double *row, const char *element)
{
	int			brackets = strchr(element, '[') != NULL;

	if (element[0] == 'b')
	{
		for (int k = 0; k < dimensions; k++)
			putchar(row[k] > 0.5 ? '1' : '0');
		return;
	}
	putchar(brackets ? '[' : '{');
	for (int k = 0; k < dimensions; k++)
	{
		double		x = clamp(row[k]);

		if (k > 0)
			putchar(',');
		if (element[0] == 'i')
			printf("%d", (int) x);
		else if (element[0] == 'd')
			printf("%.17g", x);
		else
			printf("%.9g", (double) (float) x);
	}
	putchar(brackets ? ']' : '}');
}

static void
print_key(const char *type, int number)
{
	static const char alphabet[] = "aAbBzZ_-.09 ";

	if (strcmp(type, "int") == 0)
		printf("%d", 3 * number - rows);
	else if (strcmp(type, "bigint") == 0)
		printf("%lld", ((long long) number - rows / 2) * 5000000011LL + 7);
	else if (strcmp(type, "timestamptz") == 0)
		printf("2001-%02d-%02d 12:%02d:00.%06d+00", 1 + number % 12, 1 + number / 12 % 28,
			   (int) below(60), number);
	else if (strcmp(type, "uuid") == 0)
		printf("%08x-%04x-4000-8000-%012llx", (unsigned) random64(),
			   (unsigned) below(65536), (unsigned long long) number);
	else
	{
		if (strcmp(type, "longtext") == 0)
			for (int i = 0; i < 3000; i++)
				putchar('a' + i % 23);
		for (uint64_t i = below(8); i > 0; i--)
			putchar(alphabet[below(sizeof(alphabet) - 1)]);
		printf("%sx%d", below(5) ? "" : "\xc3\xa4", number);
	}
}

int
main(int argc, char **argv)
{
	double	   *row;
	int		   *numbers;

	if (argc != 9)
		return 2;
	state = strtoull(argv[1], NULL, 10);
	distribution = argv[2];
	rows = atoi(argv[3]);
	dimensions = atoi(argv[4]);
	row = malloc(sizeof(double) * dimensions);
	centres = malloc(sizeof(double) * dimensions * CENTRES);
	numbers = malloc(sizeof(int) * (rows + 1));
	if (row == NULL || centres == NULL || numbers == NULL)
		return 1;

	for (int i = 0; i < CENTRES * dimensions; i++)
		centres[i] = normal();
	for (int i = 0; i < rows; i++)
	{
		int			j = argv[7][0] == 's' ? (int) below(i + 1) : i;

		numbers[i] = numbers[j];
		numbers[j] = i;
	}
	for (int i = 0; i < rows; i++)
	{
		print_key(argv[6], numbers[i]);
		putchar('\t');
		fill_row(row);
		if ((int) below(1000) < atoi(argv[8]))
			fputs("\\N", stdout);
		else
			print_row(row, argv[5]);
		putchar('\n');
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
