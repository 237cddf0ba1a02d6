// Constants of the server, from dashboard/templatetags/constants.py.

export const { statuses, errorKinds, colors, recentTrials, failedHeight, noise } = JSON.parse(document.getElementById("constants").textContent);
