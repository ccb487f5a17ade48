"""The simulated robot, in MuJoCo and in Gazebo."""
