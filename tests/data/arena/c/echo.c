/* Shows what a program in C sees of ARENA: arguments, environment, standard input, and channels as files. Copies messages of the
   channel `in` to the channel `light`, each with a prefix from the environment, until one says `quit`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        printf("argv[%d]=%s\n", i, argv[i]);
    const char *prefix = getenv("PREFIX");
    if (prefix == NULL)
        return 2;
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL)
        fprintf(stderr, "input: %s", line);

    FILE *in = fopen("/ch/in/data", "r");
    FILE *light = fopen("light/status", "w");
    if (in == NULL || light == NULL) {
        perror("channel");
        return 3;
    }
    if (fopen("in", "w") != NULL || fopen("/etc/passwd", "r") != NULL || fopen("../../etc/passwd", "r") != NULL)
        return 4;
    /* Without a buffer a read is a message. */
    setvbuf(in, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, in) != NULL) {
        if (strcmp(line, "quit\n") == 0)
            return 5;
        fprintf(light, "%s%s", prefix, line);
        fflush(light);
    }
    return 6;
}
