// What the status of a run or a compilation says, as tuning/models has it.

/** A worker is at it. */
export const isLive = (status) => ["running", "stopping", "cancelling"].includes(status);

/** It hasn't ended. */
export const goesOn = (status) => status === "queued" || isLive(status);
