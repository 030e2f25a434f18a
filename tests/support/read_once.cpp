// What the headers that tests read once are compiled with.
