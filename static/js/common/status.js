// What the status of a run or compilation means.
import { statuses } from "./constants.js";

/** Whether a worker is working on it. */
export const isLive = (status) => statuses.live.includes(status);

/** Whether it is queued or live. */
export const isOngoing = (status) => statuses.ongoing.includes(status);
