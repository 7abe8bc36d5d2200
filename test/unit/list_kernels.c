/*-------------------------------------------------------------------------
 *
 * list_kernels.c
 *	  Prints the names of the kernels that this CPU can run, best first.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "../../src/cpu/kernels/kernel.h"

int
main(void)
{
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		if (fasted_cpu_kernel(k)->available())
			printf("%s\n", fasted_cpu_kernel(k)->name);
	}
	return 0;
}
