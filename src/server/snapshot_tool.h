/* `holdfast snapshot`: what a snapshot file holds, and a new cluster made of one (S3.3). */
#ifndef HOLDFAST_SERVER_SNAPSHOT_TOOL_H
#define HOLDFAST_SERVER_SNAPSHOT_TOOL_H

/* The arguments behind the word `snapshot`. Returns the exit code. */
int snapshot_main(int count, char **arguments);

#endif
